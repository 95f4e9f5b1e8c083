// The fingerprint of a tokenizer: 03-bundle.md, "The fingerprint of a tokenizer".

import { sha256 } from '../files/bundle.mjs';

const NONE = Buffer.from('ffffffff', 'hex');

/** tokens: bytes of each id, or null; controls: [id, text] in any order. */
export function fingerprint(tokens, controls) {
  const parts = tokens.flatMap((bytes) => {
    if (bytes === null) return [NONE];
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    return [length, Buffer.from(bytes)];
  });
  const texts = [...controls].sort(([a], [b]) => a - b).map(([id, text]) => Buffer.from(`${id}:${text}\n`, 'utf8'));
  return sha256(Buffer.concat([...parts, ...texts]));
}
