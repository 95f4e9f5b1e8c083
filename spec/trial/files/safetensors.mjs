// Safetensors: 03-bundle.md, "safetensors".

import { JsonError, readJson } from './json.mjs';
import { integer, list, string, tuple } from './schema.mjs';

const SAFE = Number.MAX_SAFE_INTEGER;
const WIDTHS = { U8: 1n, I32: 4n, F32: 4n };
const sizes = list(0, 8, integer(0, SAFE));
const offsets = tuple(integer(0, SAFE), integer(0, SAFE));

/** {header, at}: the JSON object and where the tensors begin; the caller's `refuse(fault)` ends the reading. */
export function readHeader(bytes, most, foreign, refuse) {
  if (bytes.length < 8) refuse('truncated');
  const length = bytes.readBigUInt64LE(0);
  if (length > BigInt(most) || (bytes.length > 8 && bytes[8] !== 0x7b)) refuse(foreign);
  const at = 8 + Number(length);
  if (bytes.length < at) refuse('truncated');
  try {
    return { header: readJson(bytes.subarray(8, at)), at };
  } catch (error) {
    if (error instanceof JsonError) refuse(foreign);
    throw error;
  }
}

export const metadataIsRight = (metadata) => metadata instanceof Map && [...metadata.values()].every(string(Infinity));

function entryIsRight(entry) {
  if (!(entry instanceof Map) || entry.size !== 3) return false;
  const [begin, end] = offsets(entry.get('data_offsets')) ? entry.get('data_offsets') : [1n, 0n];
  if (!Object.hasOwn(WIDTHS, entry.get('dtype')) || !sizes(entry.get('shape')) || end < begin) return false;
  return end - begin === entry.get('shape').reduce((a, b) => a * b, WIDTHS[entry.get('dtype')]);
}

/** The end of the last tensor. Refuses (`layout`) entries that are not right, holes and overlap. */
export function checkLayout(entries, refuse) {
  if (!entries.every(entryIsRight)) refuse('layout');
  const spans = entries.map((entry) => entry.get('data_offsets')).sort(([a, b], [c, d]) => (a !== c ? Number(a - c) : Number(b - d)));
  let end = 0n;
  for (const [from, to] of spans) {
    if (from !== end) refuse('layout');
    end = to;
  }
  return Number(end);
}

/** The numbers of a tensor of type U8 or I32. */
export function values(bytes, at, entry) {
  const [begin, end] = entry.get('data_offsets').map(Number);
  const part = bytes.subarray(at + begin, at + end);
  if (entry.get('dtype') === 'U8') return Array.from(part);
  return Array.from({ length: part.length / 4 }, (_, i) => part.readInt32LE(4 * i));
}
