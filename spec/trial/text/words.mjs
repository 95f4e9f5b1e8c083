// The normaliser and the pre-tokenizer: 02-tokenizer.md, "Steps". Texts and words are strings.

import { matches } from './program.mjs';
import { STEPS } from './tokenizer_file.mjs';

const [REMOVED, ISOLATED, WITH_PREVIOUS, WITH_NEXT, CONTIGUOUS] = [0, 1, 2, 3, 4];

/** The letters of the bytes 0 to 255: 01-tokens.md, the GPT-2 alphabet. */
export const LETTERS = (() => {
  const own = (b) => (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(own(b) ? b : next++));
})();

export const codePoints = (text) => Array.from(text, (letter) => letter.codePointAt(0));
const textOf = (points) => points.map((point) => String.fromCodePoint(point)).join('');
const replace = (text, from, to) => text.split(from).join(to);

/** [from, to, isMatch] of the matches of a program and of what is between them. */
function parts(program, classes, points) {
  const all = [];
  let last = 0;
  for (const [start, end] of matches(program, classes, points)) {
    if (last < start) all.push([last, start, false]);
    all.push([start, end, true]);
    last = end;
  }
  if (last < points.length) all.push([last, points.length, false]);
  return all;
}

/** Joins part i to the one before it where `joins(i)`. */
function joined(all, joins) {
  const words = [];
  all.forEach(([from, to], i) => {
    if (i > 0 && joins(i)) words.at(-1)[1] = to;
    else words.push([from, to]);
  });
  return words;
}

function behave(all, behaviour) {
  const match = (i) => all[i][2];
  if (behaviour === REMOVED) return all.filter(([, , isMatch]) => !isMatch);
  if (behaviour === ISOLATED) return all;
  if (behaviour === WITH_PREVIOUS) return joined(all, (i) => match(i) && !match(i - 1));
  if (behaviour === WITH_NEXT) return joined(all, (i) => !match(i) && match(i - 1));
  if (behaviour === CONTIGUOUS) return joined(all, (i) => match(i) === match(i - 1));
  throw new Error('no such behaviour');
}

function split(word, program, classes, behaviour, invert) {
  const points = codePoints(word);
  const all = parts(program, classes, points).map(([from, to, isMatch]) => [from, to, isMatch !== (invert === 1)]);
  return behave(all, behaviour).map(([from, to]) => textOf(points.slice(from, to)));
}

/** NFC of each maximal run of code points of a class. */
function composed(text, classes, cls) {
  let result = '';
  let run = '';
  for (const letter of text) {
    if (classes.has(letter.codePointAt(0), cls)) run += letter;
    else {
      result += run.normalize('NFC') + letter;
      run = '';
    }
  }
  return result + run.normalize('NFC');
}

function replaceMatches(text, program, classes, to) {
  const points = codePoints(text);
  return parts(program, classes, points).map(([from, end, isMatch]) => (isMatch ? to : textOf(points.slice(from, end)))).join('');
}

export function normalise(file, classes, text) {
  for (const [op, a, b] of file.run) {
    if (op === STEPS.NFC) text = composed(text, classes, a);
    if (op === STEPS.PREPEND && text !== '') text = file.texts[a] + text;
    if (op === STEPS.REPLACE) text = replace(text, file.texts[a], file.texts[b]);
    if (op === STEPS.REPLACE_MATCHES) text = replaceMatches(text, file.found[a], classes, file.texts[b]);
  }
  return text;
}

const prefixed = (word, prefix) => (word.startsWith(prefix) ? word : prefix + word);
export const lettersOf = (bytes) => Array.from(bytes, (byte) => LETTERS[byte]).join('');

/** The words of a text. first: nothing was before this text. */
export function preTokenize(file, classes, text, first) {
  let words = text === '' ? [] : [text];
  for (const [op, a, b, c] of file.run) {
    if (op === STEPS.SPLIT) words = words.flatMap((word) => split(word, file.found[a], classes, b, c));
    if (op === STEPS.SUBSTITUTE) words = words.map((word) => replace(word, file.texts[a], file.texts[b]));
    if (op === STEPS.PREFIX) words = words.map((word) => prefixed(word, file.texts[a]));
    if (op === STEPS.PREFIX_FIRST && first) words = words.map((word, i) => (i === 0 ? prefixed(word, file.texts[a]) : word));
    if (op === STEPS.BYTES) words = words.map((word) => lettersOf(Buffer.from(word, 'utf8')));
  }
  return words;
}
