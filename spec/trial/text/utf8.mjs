// Bytes become text: 05-stopping.md, "Text".

/** [number of bytes, lowest second byte, highest second byte] of a first byte, or null. */
function lead(byte) {
  if (byte <= 0x7f) return [1, 0, 0];
  if (byte >= 0xc2 && byte <= 0xdf) return [2, 0x80, 0xbf];
  if (byte === 0xe0) return [3, 0xa0, 0xbf];
  if (byte === 0xed) return [3, 0x80, 0x9f];
  if (byte >= 0xe1 && byte <= 0xef) return [3, 0x80, 0xbf];
  if (byte === 0xf0) return [4, 0x90, 0xbf];
  if (byte >= 0xf1 && byte <= 0xf3) return [4, 0x80, 0xbf];
  if (byte === 0xf4) return [4, 0x80, 0x8f];
  return null;
}

/** The part of a character at `at`: how many bytes belong together, and whether they are the whole character. */
export function characterAt(bytes, at) {
  const kind = lead(bytes[at]);
  if (kind === null) return { length: 1, whole: false, open: false };
  const [size, low, high] = kind;
  let length = 1;
  while (length < size && at + length < bytes.length) {
    const byte = bytes[at + length];
    if (length === 1 ? byte < low || byte > high : byte < 0x80 || byte > 0xbf) break;
    length += 1;
  }
  return { length, whole: length === size, open: length < size && at + length === bytes.length };
}

function codePoint(bytes) {
  if (bytes.length === 1) return bytes[0];
  let code = bytes[0] & (0xff >> (bytes.length + 1));
  for (const byte of bytes.slice(1)) code = (code << 6) | (byte & 0x3f);
  return code;
}

export class TextStream {
  constructor() {
    this.held = [];
  }

  /** The text that these bytes make certain. */
  push(bytes) {
    const all = [...this.held, ...bytes];
    let text = '';
    let at = 0;
    while (at < all.length) {
      const { length, whole, open } = characterAt(all, at);
      if (open) break;
      text += whole ? String.fromCodePoint(codePoint(all.slice(at, at + length))) : '\ufffd';
      at += length;
    }
    this.held = all.slice(at);
    return text;
  }

  /** The text of what is held at the end. */
  rest() {
    const text = this.held.length ? '\ufffd' : '';
    this.held = [];
    return text;
  }
}

export function decode(bytes) {
  const stream = new TextStream();
  return stream.push(bytes) + stream.rest();
}
