// Texts and bytes become ids: 01-tokens.md; 02-tokenizer.md, "encode".

import { Bpe } from './merge.mjs';
import { Classes } from './program.mjs';
import { ADDED, ROLES, readTokenizerFile } from './tokenizer_file.mjs';
import { characterAt } from './utf8.mjs';
import { LETTERS, codePoints, normalise, preTokenize } from './words.mjs';

const BYTE_OF = new Map(LETTERS.map((letter, byte) => [letter, byte]));
const LINE = '\u2581'; // SentencePiece writes a space as this
const WHITE = new Set([
  0x20, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
  ...[9, 10, 11, 12, 13], ...Array.from({ length: 11 }, (_, i) => 0x2000 + i),
]);

const isWhite = (letter) => WHITE.has(letter.codePointAt(0));

function trimStart(text) {
  const letters = Array.from(text);
  const from = letters.findIndex((letter) => !isWhite(letter));
  return from < 0 ? '' : letters.slice(from).join('');
}

function trimEnd(text) {
  const letters = Array.from(text);
  const last = letters.findLastIndex((letter) => !isWhite(letter));
  return letters.slice(0, last + 1).join('');
}

/** Runs {bytes, text} of whole characters (text true) and of stray bytes. */
function runs(data) {
  const all = [];
  for (let at = 0; at < data.length; ) {
    const { length, whole } = characterAt(data, at);
    if (all.length === 0 || all.at(-1).text !== whole) all.push({ bytes: [], text: whole });
    all.at(-1).bytes.push(...data.slice(at, at + length));
    at += length;
  }
  return all;
}

const utf8 = (bytes) => Buffer.from(bytes).toString('utf8');
const bytesOfLetters = (word) => Array.from(word, (letter) => BYTE_OF.get(letter));
const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

export class Tokenizer {
  /** data: the bytes of tokenizer.bin. */
  constructor(data) {
    this.file = readTokenizerFile(data);
    this.classes = new Classes(this.file.ranges, this.file.masks);
    this.bpe = new Bpe(this.file);
    const tokens = this.file.tokens.map((token) => ({ ...token, points: codePoints(token.content) }));
    this.control = tokens.filter((token) => token.flags & ADDED.CONTROL);
    const plain = tokens.filter((token) => !(token.flags & ADDED.CONTROL));
    this.raw = plain.filter((token) => !(token.flags & ADDED.NORMALIZED));
    this.normalised = plain.filter((token) => token.flags & ADDED.NORMALIZED);
  }

  /** Bytes of an id, or null. */
  bytesOf(id) {
    const text = this.file.textOf(id);
    switch (this.file.roles[id]) {
      case ROLES.PIECE: return this.file.kind === 0 ? [...text] : [...Buffer.from(utf8(text).replaceAll(LINE, ' '), 'utf8')];
      case ROLES.BYTE: return [parseInt(utf8(text).slice(3, 5), 16)];
      case ROLES.PLAIN: return [...text];
      default: return null;
    }
  }

  bytes(ids) {
    return ids.flatMap((id) => this.bytesOf(id) ?? []);
  }

  /** A whole text, without bos and eos. */
  encode(text) {
    const ids = [];
    for (const outer of this.cut(text, this.raw)) {
      if (outer.id !== undefined) {
        ids.push(outer.id);
        continue;
      }
      for (const inner of this.cut(normalise(this.file, this.classes, outer.text), this.normalised)) {
        if (inner.id !== undefined) ids.push(inner.id);
        else for (const word of preTokenize(this.file, this.classes, inner.text, outer.start === 0 && inner.start === 0)) ids.push(...this.word(word));
      }
    }
    return ids;
  }

  word(word) {
    return this.bpe.pieces(Buffer.from(this.file.kind === 0 ? bytesOfLetters(word) : Buffer.from(word, 'utf8')));
  }

  /** Parts in order: {start, text} and {start, id}. */
  cut(text, tokens) {
    const points = codePoints(text);
    const parts = [];
    const slice = (from, to) => String.fromCodePoint(...points.slice(from, to));
    let last = 0;
    for (const { token, start: begin, end: stop } of this.contents(points, tokens)) {
      let [start, end] = [begin, stop];
      const inWord = (at) => at >= 0 && at < points.length && this.classes.has(points[at], this.file.letters);
      if (token.flags & ADDED.SINGLE_WORD && (inWord(start - 1) || inWord(end))) continue;
      if (token.flags & ADDED.LSTRIP) while (start > last && WHITE.has(points[start - 1])) start -= 1;
      if (token.flags & ADDED.RSTRIP) while (end < points.length && WHITE.has(points[end])) end += 1;
      if (last < start) parts.push({ start: last, text: slice(last, start) });
      parts.push({ start, id: token.id });
      last = end;
    }
    if (last < points.length) parts.push({ start: last, text: slice(last, points.length) });
    return parts;
  }

  /** Where the contents of tokens stand: leftmost first, the longest of those. */
  *contents(points, tokens) {
    const stands = (token, at) => token.points.every((point, i) => points[at + i] === point);
    for (let at = 0; at < points.length; ) {
      let best = null;
      for (const token of tokens) {
        if ((best === null || token.points.length > best.points.length) && stands(token, at)) best = token;
      }
      if (best !== null) yield { token: best, start: at, end: at + best.points.length };
      at += best === null ? 1 : best.points.length;
    }
  }

  /** The ids of a fragment of bytes, or null. */
  spell(data) {
    const ids = [];
    for (const run of runs(data)) {
      const part = this.file.kind === 0 ? this.spellLetters(run) : this.spellPieces(run);
      if (part === null) return null;
      ids.push(...part);
    }
    return equal(this.bytes(ids), data) ? ids : null;
  }

  spellLetters(run) {
    if (!run.text) return this.bpe.pieces(Buffer.from(run.bytes));
    let words = preTokenize(this.file, this.classes, utf8(run.bytes), true).map(bytesOfLetters);
    if (!equal(words.flat(), run.bytes)) words = [run.bytes];
    return words.flatMap((word) => this.bpe.pieces(Buffer.from(word)));
  }

  spellPieces(run) {
    const inBytes = (bytes) => bytes.map((byte) => this.file.byte_ids[byte]);
    const ids = [];
    if (run.text) {
      utf8(run.bytes).split(LINE).forEach((part, i) => {
        if (i > 0) ids.push(...inBytes([0xe2, 0x96, 0x81]));
        if (part !== '') ids.push(...this.bpe.pieces(Buffer.from(part.replaceAll(' ', LINE), 'utf8')));
      });
    } else ids.push(...inBytes(run.bytes));
    return ids.includes(-1) ? null : ids;
  }

  /** The ids of a text behind an answer, or null: its added tokens, and the text between them spelled. */
  goingOn(text) {
    const tokens = this.raw.filter((token) => !(token.flags & ADDED.SINGLE_WORD));
    const parts = this.cut(text, tokens).map((part) => (part.id === undefined ? this.spell([...Buffer.from(part.text, 'utf8')]) : [part.id]));
    return parts.includes(null) ? null : parts.flat();
  }

  /** Runs of text and control tokens of a template's string. */
  split(text) {
    return this.cut(text, this.control.map((token) => ({ ...token, flags: ADDED.CONTROL })));
  }

  /** parts: a string of the template, a text, a string of the template, ...; goesOn: the prompt follows earlier ids. */
  encodePrompt(parts, goesOn) {
    const ids = [];
    const fragment = (plain) => (goesOn && ids.length === 0 ? this.goingOn(plain) : null) ?? this.encode(plain);
    const flags = new Map(this.control.map((token) => [token.id, token.flags]));
    let plain = '';
    let strip = false;
    for (const run of parts.flatMap((part, i) => (i % 2 === 1 ? [{ text: part }] : this.split(part)))) {
      if (run.id === undefined) {
        plain += run.text;
        continue;
      }
      if (strip) plain = trimStart(plain);
      if (flags.get(run.id) & ADDED.LSTRIP) plain = trimEnd(plain);
      ids.push(...fragment(plain), run.id);
      plain = '';
      strip = (flags.get(run.id) & ADDED.RSTRIP) !== 0;
    }
    if (strip) plain = trimStart(plain);
    return [...ids, ...fragment(plain)];
  }
}
