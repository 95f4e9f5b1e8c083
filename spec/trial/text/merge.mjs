// Byte-pair encoding: 02-tokenizer.md, "encode", pieces and merge.

const FLAGS = { IGNORE_MERGES: 1, BYTE_FALLBACK: 2, FUSE_UNKNOWN: 4 };

/** Entries [rank, place, merged]; the smallest comes first. */
class Queue {
  constructor() {
    this.heap = [];
  }

  before(i, j) {
    const [a, b] = [this.heap[i], this.heap[j]];
    return a[0] !== b[0] ? a[0] < b[0] : a[1] < b[1];
  }

  swap(i, j) {
    [this.heap[i], this.heap[j]] = [this.heap[j], this.heap[i]];
  }

  push(entry) {
    let i = this.heap.push(entry) - 1;
    for (let up = (i - 1) >> 1; i > 0 && this.before(i, up); up = (i - 1) >> 1) {
      this.swap(i, up);
      i = up;
    }
  }

  pop() {
    const top = this.heap[0];
    const last = this.heap.pop();
    if (this.heap.length === 0) return top;
    this.heap[0] = last;
    let i = 0;
    for (;;) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2]) if (child < this.heap.length && this.before(child, least)) least = child;
      if (least === i) return top;
      this.swap(i, least);
      i = least;
    }
  }
}

export class Bpe {
  constructor(file) {
    this.file = file;
  }

  /** {rank, merged} or null. */
  mergeOf(left, right) {
    const { merge_keys: keys, merge_values: values } = this.file;
    const key = (BigInt(left) << 32n) | BigInt(right);
    let low = 0;
    let high = keys.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (keys[middle] < key) low = middle + 1;
      else high = middle;
    }
    return low < keys.length && keys[low] === key ? { rank: values[2 * low], merged: values[2 * low + 1] } : null;
  }

  /** The id of the piece with this text, or -1. */
  pieceOf(data) {
    const { sorted } = this.file;
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (Buffer.compare(this.file.textOf(sorted[middle]), data) < 0) low = middle + 1;
      else high = middle;
    }
    return low < sorted.length && Buffer.compare(this.file.textOf(sorted[low]), data) === 0 ? sorted[low] : -1;
  }

  /** data: the bytes of a word. */
  pieces(data) {
    const { file } = this;
    if (file.flags & FLAGS.IGNORE_MERGES) {
      const whole = this.pieceOf(data);
      if (whole >= 0) return [whole];
    }
    const symbols = [];
    let waits = false;
    const flush = () => {
      if (waits) symbols.push(file.unknown);
      waits = false;
    };
    for (const part of this.parts(data)) {
      const id = file.kind === 0 ? file.model_bytes[part[0]] : this.pieceOf(part);
      const bytes = Array.from(part, (byte) => file.model_bytes[byte]);
      if (id >= 0) {
        flush();
        symbols.push(id);
      } else if (file.kind === 1 && file.flags & FLAGS.BYTE_FALLBACK && bytes.every((one) => one >= 0)) symbols.push(...bytes);
      else if (file.unknown >= 0) {
        if (!(file.flags & FLAGS.FUSE_UNKNOWN)) flush();
        waits = true;
      }
    }
    flush();
    return this.merge(symbols);
  }

  /** Byte-level: each byte; else the bytes of each code point. */
  parts(data) {
    if (this.file.kind === 0) return Array.from(data, (byte) => Buffer.from([byte]));
    return Array.from(Buffer.from(data).toString('utf8'), (letter) => Buffer.from(letter, 'utf8'));
  }

  merge(symbols) {
    const ids = [...symbols];
    const next = ids.map((_, i) => (i + 1 < ids.length ? i + 1 : -1));
    const before = ids.map((_, i) => i - 1);
    const queue = new Queue();
    const put = (at) => {
      if (at < 0 || next[at] < 0) return;
      const found = this.mergeOf(ids[at], ids[next[at]]);
      if (found !== null) queue.push([found.rank, at, found.merged]);
    };
    ids.forEach((_, at) => put(at));
    while (queue.heap.length > 0) {
      const [, at, merged] = queue.pop();
      if (ids[at] === null || next[at] < 0) continue;
      const right = next[at];
      if (this.mergeOf(ids[at], ids[right])?.merged !== merged) continue;
      ids[at] = merged;
      ids[right] = null;
      next[at] = next[right];
      if (next[at] >= 0) before[next[at]] = at;
      put(at);
      put(before[at]);
    }
    return ids.filter((id) => id !== null);
  }
}
