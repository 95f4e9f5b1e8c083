// Safetensors: 8 bytes of length (little-endian), a JSON header, then the tensors' bytes.

const KINDS = { U8: [1, (view, at) => view.getUint8(at)], I32: [4, (view, at) => view.getInt32(at, true)] };

/** {metadata, tensors: name -> array of numbers} */
export function readSafetensors(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
  const { __metadata__: metadata = {}, ...entries } = header;
  const tensors = {};
  for (const [name, { dtype, data_offsets: [begin, end] }] of Object.entries(entries)) {
    const [size, get] = KINDS[dtype];
    tensors[name] = Array.from({ length: (end - begin) / size }, (_, i) => get(view, 8 + length + begin + i * size));
  }
  return { metadata, tensors };
}
