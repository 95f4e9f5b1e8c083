// vocab_map.safetensors: 03-bundle.md, "vocab_map.safetensors".

import { Fault } from '../files/bundle.mjs';
import { checkLayout, metadataIsRight, readHeader, values } from '../files/safetensors.mjs';
import { digest } from '../files/schema.mjs';

const MOST_BYTES = 268435456;
const MOST_HEADER = 65536;
const MOST_ROWS = 2 ** 24;
const TYPES = {
  target_bytes: 'U8', target_byte_offsets: 'I32', direct: 'I32', spellings: 'I32', spelling_offsets: 'I32', expansions: 'I32',
  expansion_offsets: 'I32', leaves: 'I32', draft_allowed: 'U8',
};

const refuse = (fault) => {
  throw new Fault(fault);
};

function checkOffsets(offsets, count) {
  if (offsets.length === 0 || offsets[0] !== 0 || offsets.at(-1) !== count) refuse('offsets');
  for (let i = 1; i < offsets.length; i++) if (offsets[i] < offsets[i - 1]) refuse('offsets');
}

const ragged = (flat, offsets) => offsets.slice(1).map((end, i) => flat.slice(offsets[i], end));

/** Compares draft ids in order, shorter first. */
function compare(a, b) {
  const i = a.findIndex((id, at) => id !== b[at]);
  if (i < 0) return a.length - b.length;
  return i < b.length ? a[i] - b[i] : 1;
}

function checkIds(map, draftSize, targetSize) {
  const below = (size) => (id) => id >= 0 && id < size;
  const right = map.spellings.every(below(draftSize)) && map.expansions.every(below(targetSize)) && map.leaves.every(below(targetSize))
    && map.direct.every((id) => id === -1 || below(targetSize)(id)) && map.draft_allowed.every((flag) => flag === 0 || flag === 1);
  if (!right) refuse('id_range');
}

function checkLeaves(leaves, spellings) {
  if (new Set(leaves).size !== leaves.length || leaves.some((t) => spellings[t].length === 0)) refuse('leaves');
  for (let i = 1; i < leaves.length; i++) if (compare(spellings[leaves[i - 1]], spellings[leaves[i]]) >= 0) refuse('leaves');
}

function checkDirect(direct, leaves, spellings) {
  const leafSet = new Set(leaves);
  direct.forEach((t, d) => {
    if (t >= 0 && !(leafSet.has(t) && spellings[t].length === 1 && spellings[t][0] === d)) refuse('direct');
  });
  if (leaves.some((t) => spellings[t].length === 1 && direct[spellings[t][0]] !== t)) refuse('direct');
}

function checkTables(map) {
  checkOffsets(map.target_byte_offsets, map.target_bytes.length);
  checkOffsets(map.spelling_offsets, map.spellings.length);
  checkOffsets(map.expansion_offsets, map.expansions.length);
  const [draftSize, targetSize] = [map.direct.length, map.target_byte_offsets.length - 1];
  const sizes = map.spelling_offsets.length - 1 === targetSize && map.expansion_offsets.length - 1 === draftSize
    && map.draft_allowed.length === draftSize;
  if (!sizes || [draftSize, targetSize].some((size) => size < 1 || size > MOST_ROWS)) refuse('sizes');
  checkIds(map, draftSize, targetSize);
}

/** The tables of the map, with lists for ragged rows. bytes: a Buffer, or null where the file cannot be read. */
export function readMapFile(bytes) {
  if (bytes === null || bytes.length > MOST_BYTES) refuse('unreadable');
  const { header, at } = readHeader(bytes, MOST_HEADER, 'not_a_map', refuse);
  if (!(header instanceof Map)) refuse('not_a_map');
  const metadata = header.get('__metadata__') ?? new Map();
  header.delete('__metadata__');
  if (!metadataIsRight(metadata) || metadata.get('format') !== 'omnidraft.vocab_map') refuse('not_a_map');
  if (metadata.get('version') !== '1') refuse('version');
  const end = at + checkLayout([...header.values()], refuse);
  if (bytes.length < end) refuse('truncated');
  if (bytes.length > end) refuse('trailing_bytes');
  if (Object.keys(TYPES).some((name) => !header.has(name))) refuse('missing_tensor');
  if (header.size > Object.keys(TYPES).length) refuse('extra_tensor');
  for (const [name, entry] of header) if (entry.get('dtype') !== TYPES[name] || entry.get('shape').length !== 1) refuse('dtype');
  const prints = ['draft_fingerprint', 'target_fingerprint'].map((name) => metadata.get(name));
  if (!prints.every(digest)) refuse('metadata');
  const map = Object.fromEntries([...header].map(([name, entry]) => [name, values(bytes, at, entry)]));
  checkTables(map);
  const spellings = ragged(map.spellings, map.spelling_offsets);
  checkLeaves(map.leaves, spellings);
  checkDirect(map.direct, map.leaves, spellings);
  return {
    target_bytes: ragged(map.target_bytes, map.target_byte_offsets), direct: map.direct, spellings,
    expansions: ragged(map.expansions, map.expansion_offsets), leaves: map.leaves, draft_allowed: map.draft_allowed,
    draft_fingerprint: prints[0], target_fingerprint: prints[1],
  };
}

/** models: widths and fingerprints of the models of the bundle that holds the map. */
export function checkModels(map, models) {
  const fits = map.direct.length === models.draft_size && map.spellings.length === models.target_size
    && map.draft_fingerprint === models.draft_fingerprint && map.target_fingerprint === models.target_fingerprint;
  if (!fits) refuse('foreign_vocabulary');
}
