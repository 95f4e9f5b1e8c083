// The file of an n-gram cache, as far as level core needs it: 06-ngram-cache.md, "The file". Nothing is checked.

const HEADER = 136;

/** {tick, entries: [{target_id, hits, accepted, tick}]} */
export function readCache(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const number = { 1: (at) => view.getUint8(at), 2: (at) => view.getUint16(at, true), 4: (at) => view.getUint32(at, true) };
  const [targets, pieces, ticks, counts] = [12, 13, 14, 15].map((at) => view.getUint8(at));
  const n = view.getUint32(80, true);
  let begin = HEADER;
  const columns = [targets, 1, pieces, ticks, counts].map((width, section) => {
    const length = view.getUint32(92 + 8 * section, true) / width;
    const column = Array.from({ length }, (_, i) => number[width](begin + i * width));
    begin += length * width;
    return column;
  });
  const entries = columns[0].map((id, i) => ({
    target_id: id, hits: columns[4][i], accepted: columns[4][n + i], tick: columns[3][i],
  }));
  return { tick: view.getUint32(84, true), entries };
}
