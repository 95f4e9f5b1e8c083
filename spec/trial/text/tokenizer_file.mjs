// The compiled tokenizer's file: 02-tokenizer.md, "The file" and "Faults".

import { Fault } from '../files/bundle.mjs';
import { OPS } from './program.mjs';

const MAGIC = 'ODTOKENS';
const HEADER = 208;
const MOST_GROWTH = 64;
const MOST_WORK = 2048;
const SECTIONS = [
  ['offsets', 4], ['text', 1], ['roles', 1], ['sorted', 4], ['merge_keys', 8], ['merge_values', 8], ['byte_ids', 4], ['model_bytes', 4],
  ['string_offsets', 4], ['strings', 1], ['added', 12], ['ranges', 4], ['masks', 8], ['code', 12], ['programs', 8], ['steps', 16],
];
export const STEPS = { NFC: 1, PREPEND: 2, REPLACE: 3, REPLACE_MATCHES: 4, SPLIT: 5, SUBSTITUTE: 6, PREFIX: 7, PREFIX_FIRST: 8, BYTES: 9 };
export const ADDED = { CONTROL: 1, LSTRIP: 2, RSTRIP: 4, NORMALIZED: 8, SINGLE_WORD: 16 };
export const ROLES = { UNUSED: 0, PIECE: 1, BYTE: 2, CONTROL: 3, PLAIN: 4 };

const need = (fault, right) => {
  if (!right) throw new Fault(fault);
};

const aligned = (n) => Math.ceil(n / 8) * 8;

/** Rows of `width` numbers. */
const rows = (numbers, width) => Array.from({ length: numbers.length / width }, (_, i) => numbers.subarray(i * width, (i + 1) * width));

function readSections(bytes, view) {
  const sections = {};
  let begin = HEADER;
  SECTIONS.forEach(([name, entry], i) => {
    const start = view.getUint32(80 + 8 * i, true);
    const length = view.getUint32(84 + 8 * i, true);
    need('layout', start === begin && length % entry === 0);
    need('truncated', start + length <= bytes.length);
    sections[name] = bytes.subarray(start, start + length);
    begin = aligned(start + length);
  });
  need('truncated', bytes.length >= begin);
  need('layout', bytes.length === begin);
  return sections;
}

const u32 = (part) => new Uint32Array(part.buffer, part.byteOffset, part.length / 4);
const i32 = (part) => new Int32Array(part.buffer, part.byteOffset, part.length / 4);
const u64 = (part) => new BigUint64Array(part.buffer, part.byteOffset, part.length / 8);

const neverFalls = (offsets, end) =>
  offsets.length > 0 && offsets[0] === 0 && offsets.at(-1) === end && offsets.every((x, i) => i === 0 || offsets[i - 1] <= x);

function checkRoles(file) {
  let byteTokens = 0;
  file.roles.forEach((role, id) => {
    need('role', role <= ROLES.PLAIN);
    if (role !== ROLES.BYTE) return;
    byteTokens += 1;
    need('role', byteTokens <= 1024 && /^<0x[0-9a-fA-F]{2}>$/.test(Buffer.from(file.textOf(id)).toString('latin1')));
  });
}

function checkVocabulary(file) {
  need('header', file.ids >= 1 && file.ids <= 2 ** 22);
  need('layout', file.offsets.length === file.ids + 1 && file.roles.length === file.ids);
  need('offset', neverFalls(file.offsets, file.text.length));
  checkRoles(file);
  need('id', file.sorted.every((id) => id < file.ids));
  for (const table of [file.byte_ids, file.model_bytes]) {
    need('layout', table.length === 256);
    need('id', table.every((id) => id >= -1 && id < file.ids));
  }
  need('layout', file.merge_keys.length === file.merge_values.length / 2 && file.merge_keys.length <= 2 ** 23);
  need('merges', file.merge_keys.every((key, i) => i === 0 || file.merge_keys[i - 1] < key));
  const exists = (id) => id < file.ids;
  need('id', file.merge_keys.every((key) => exists(key >> 32n) && exists(key & 0xffffffffn)));
  need('id', file.merge_values.every((id, i) => i % 2 === 0 || exists(id)));
}

function checkClasses(file) {
  const { ranges, masks, classes } = file;
  need('classes', ranges.length > 0 && ranges.length === masks.length && ranges[0] === 0 && classes <= 64);
  need('classes', ranges.every((from, i) => from < 0x110000 && (i === 0 || ranges[i - 1] < from)));
  need('classes', masks.every((mask) => mask >> BigInt(classes) === 0n));
}

function checkHeader(file) {
  need('header', file.kind <= 1 && file.flags < 8 && file.zero === 0);
  need('header', file.unknown >= -1 && file.unknown < file.ids && file.bos >= -1 && file.bos < file.ids);
  need('header', file.letters >= -1 && file.letters < file.classes);
}

function readStrings(file) {
  const { string_offsets: offsets, strings } = file;
  need('strings', neverFalls(offsets, strings.length) && offsets.length - 1 <= 2 ** 16);
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  return Array.from({ length: offsets.length - 1 }, (_, i) => {
    const part = strings.subarray(offsets[i], offsets[i + 1]);
    need('strings', part.length <= 4096);
    try {
      return decoder.decode(part);
    } catch {
      throw new Fault('strings');
    }
  });
}

function readAdded(file) {
  return rows(file.added, 3).map(([id, flags, index]) => {
    need('id', id < file.ids);
    const content = file.texts[index];
    need('added', content !== undefined && content !== '' && flags < 32);
    need('added', (flags & ADDED.CONTROL) !== 0 || (flags & ADDED.SINGLE_WORD) === 0 || file.letters >= 0);
    return { id, flags, content };
  });
}

function checkProgram(program, classes) {
  const { length } = program;
  const right = (([op, a, b], pc) => {
    if (op === OPS.SPLIT) return a < length && b < length;
    if (op === OPS.JUMP) return a < length && (a > pc || program[a][0] === OPS.SPLIT);
    return op === OPS.MATCH || (op <= OPS.BEFORE_IS_NOT && a < classes);
  });
  need('program', length > 0 && program.every(right) && [OPS.MATCH, OPS.SPLIT, OPS.JUMP].includes(program.at(-1)[0]));
}

function readPrograms(file) {
  const code = rows(file.code, 3);
  need('program', code.length <= 8192 && file.programs.length / 2 <= 64);
  return rows(file.programs, 2).map(([first, count]) => {
    need('program', first + count <= code.length && count <= 512);
    const program = code.slice(first, first + count);
    checkProgram(program, file.classes);
    return program;
  });
}

function stepIsRight(file, [op, a, b, c]) {
  const string = (i) => i < file.texts.length;
  const searched = (i) => string(i) && file.texts[i] !== '';
  const program = (i) => i < file.found.length;
  switch (op) {
    case STEPS.NFC: return a < file.classes;
    case STEPS.PREPEND: return string(a);
    case STEPS.REPLACE: return searched(a) && string(b);
    case STEPS.REPLACE_MATCHES: return program(a) && string(b);
    case STEPS.SPLIT: return program(a) && b <= 4 && c <= 1;
    case STEPS.SUBSTITUTE: return searched(a) && string(b);
    case STEPS.PREFIX: return searched(a);
    case STEPS.PREFIX_FIRST: return searched(a);
    default: return op === STEPS.BYTES;
  }
}

/** Instructions that a program runs for each position of a text, at most. */
function cost(program) {
  const way = (pc) => {
    const [op, a] = program[pc];
    if (op === OPS.MATCH || op === OPS.SPLIT) return 1;
    return 1 + way(op === OPS.JUMP ? a : pc + 1);
  };
  return program.reduce((sum, [op, a, b]) => (op === OPS.SPLIT ? sum + way(a) + way(b) : sum), way(0));
}

/** How many times longer a step may make a text, in bytes. */
function growthOf(file, [op, a, b]) {
  const length = (i) => Buffer.byteLength(file.texts[i]);
  if (op === STEPS.REPLACE || op === STEPS.SUBSTITUTE) return Math.max(1, Math.ceil(length(b) / length(a)));
  if (op === STEPS.REPLACE_MATCHES) return Math.max(1, length(b));
  if (op === STEPS.PREPEND || op === STEPS.PREFIX || op === STEPS.PREFIX_FIRST) return 1 + length(a);
  return { [STEPS.NFC]: 3, [STEPS.BYTES]: 2 }[op] ?? 1;
}

/** Units of work of a step for each byte of its text. */
function workOf(file, [op, a]) {
  if (op === STEPS.SPLIT || op === STEPS.REPLACE_MATCHES) return cost(file.found[a]);
  if (op === STEPS.REPLACE || op >= STEPS.SUBSTITUTE && op <= STEPS.PREFIX_FIRST) return Buffer.byteLength(file.texts[a]);
  return 1;
}

/** Refuse steps that lengthen a text too much, or work on it too long. */
function checkBounds(file, steps) {
  const longest = Math.max(0, ...file.tokens.map((token) => Buffer.byteLength(token.content)));
  const normalisers = steps.filter(([op]) => op < STEPS.SPLIT).length;
  let growth = 1;
  let work = 0;
  for (let i = 0; i <= steps.length; i += 1) {
    if (i === normalisers) work += growth * longest;
    if (i < steps.length) {
      work += growth * workOf(file, steps[i]);
      growth *= growthOf(file, steps[i]);
    }
  }
  need('step', growth <= MOST_GROWTH);
  need('step', work <= MOST_WORK);
}

function readSteps(file) {
  const steps = rows(file.steps, 4);
  need('step', steps.length <= 64);
  steps.forEach((step, i) => {
    need('step', stepIsRight(file, step));
    need('step', step[0] >= STEPS.SPLIT || i === 0 || steps[i - 1][0] < STEPS.SPLIT);
  });
  const bytes = steps.filter(([op]) => op === STEPS.BYTES).length;
  need('step', bytes === (file.kind === 0 ? 1 : 0));
  checkBounds(file, steps);
  return steps;
}

/** The parts of a compiled tokenizer. data: the bytes of the file, or null. */
export function readTokenizerFile(data) {
  need('unreadable', data !== null);
  const bytes = new Uint8Array(data); // a copy of its own: the tables are read in place
  const view = new DataView(bytes.buffer);
  need('not_a_tokenizer', Buffer.from(bytes.subarray(0, 8)).toString('latin1') === MAGIC);
  need('truncated', bytes.length >= 12);
  need('version', view.getUint32(8, true) === 1);
  need('truncated', bytes.length >= HEADER);
  need('header', view.getUint32(12, true) === SECTIONS.length && bytes.length <= 2 ** 30);
  const [ids, kind, flags] = [48, 52, 56].map((at) => view.getUint32(at, true));
  const [unknown, bos, letters] = [60, 64, 68].map((at) => view.getInt32(at, true));
  const [classes, zero] = [72, 76].map((at) => view.getUint32(at, true));
  const parts = readSections(bytes, view);
  const file = { ids, kind, flags, unknown, bos, letters, classes, zero, text: parts.text, roles: parts.roles, strings: parts.strings };
  for (const name of ['offsets', 'sorted', 'merge_values', 'string_offsets', 'added', 'ranges', 'code', 'programs', 'steps']) {
    file[name] = u32(parts[name]);
  }
  for (const name of ['byte_ids', 'model_bytes']) file[name] = i32(parts[name]);
  for (const name of ['merge_keys', 'masks']) file[name] = u64(parts[name]);
  file.fingerprint = Buffer.from(bytes.subarray(16, 48)).toString('hex');
  file.textOf = (id) => file.text.subarray(file.offsets[id], file.offsets[id + 1]);
  checkVocabulary(file);
  checkClasses(file);
  checkHeader(file);
  file.texts = readStrings(file);
  file.tokens = readAdded(file);
  file.found = readPrograms(file);
  file.run = readSteps(file);
  return file;
}
