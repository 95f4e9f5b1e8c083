// The thought of an answer: 01-tokens.md, "Thoughts".

const WHITE = [0x20, 0x09, 0x0a, 0x0d];
const trim = (text) => text.replace(/^[ \t\n\r]+/, '');

/** The byte at which the answer begins. */
export function answerStart(output, { open, close }, inside) {
  let at = 0;
  while (WHITE.includes(output[at])) at += 1;
  const tag = Buffer.from(open, 'utf8');
  if (!inside && !output.subarray(at, at + tag.length).equals(tag)) return 0;
  const found = output.indexOf(Buffer.from(close, 'utf8'));
  return found < 0 ? output.length : found + Buffer.byteLength(close);
}

/** The byte at which the part begins that a conversation keeps. */
export function keptStart(output, tags, inside) {
  if (tags.earlier === 'keep') return 0;
  let start = answerStart(output, tags, inside);
  if (start > 0 && tags.earlier === 'trim') while (output[start] === 0x0a) start += 1;
  return start;
}

const SPACE = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+';
const START = new RegExp(`^${SPACE}`, 'u');
const END = new RegExp(`${SPACE}$`, 'u');

/** A text without the white space at these ends, [start, end]. */
export const trimmed = (text, [start, end]) => [[start, START], [end, END]].reduce((t, [cut, space]) => (cut ? t.replace(space, '') : t), text);

/** The answer in a text that a program gives. */
export function givenAnswer(text, tags, [start, end]) {
  const output = Buffer.from(text, 'utf8');
  const from = tags === null ? 0 : answerStart(output, tags, text.includes(tags.close));
  return trimmed(output.subarray(from).toString('utf8'), [start || from > 0, end]);
}

/** Tells thought from answer while an output streams. */
export class ThoughtStream {
  constructor(tags, inside) {
    Object.assign(this, { tags, held: '', state: inside ? 'thought' : 'start' });
  }

  push(text) {
    this.held += text;
    if (this.state === 'start') {
      const begun = trim(this.held);
      if (begun.startsWith(this.tags.open)) this.state = 'thought';
      else if (this.tags.open.startsWith(begun)) return [];
      else this.state = 'answer';
    }
    if (this.state === 'answer') return this.end();
    const { close } = this.tags;
    const at = this.held.indexOf(close);
    if (at >= 0) {
      const thought = this.held.slice(0, at + close.length);
      this.held = this.held.slice(at + close.length);
      this.state = 'answer';
      return [[thought, true], ...this.end()];
    }
    let keep = Math.min(close.length - 1, this.held.length);
    while (keep > 0 && !this.held.endsWith(close.slice(0, keep))) keep -= 1;
    const ready = this.held.slice(0, this.held.length - keep);
    this.held = this.held.slice(this.held.length - keep);
    return ready === '' ? [] : [[ready, true]];
  }

  end() {
    const text = this.held;
    this.held = '';
    return text === '' ? [] : [[text, this.state === 'thought']];
  }
}

/** The ids of an answer that a conversation keeps; an id of a tag has the tag's bytes. */
export function keptIds(tokenizer, ids, tags, inside) {
  const written = new Map(tokenizer.control.filter(({ content }) => [tags.open, tags.close].includes(content))
    .map(({ id, content }) => [id, Buffer.from(content, 'utf8')]));
  const data = ids.map((id) => written.get(id) ?? Buffer.from(tokenizer.bytesOf(id) ?? []));
  let start = keptStart(Buffer.concat(data), tags, inside);
  if (start === 0) return ids;
  for (let i = 0; i < ids.length; i += 1) {
    if (data[i].length > start) {
      if (start === 0) return ids.slice(i);
      return [...(tokenizer.spell([...data[i].subarray(start)]) ?? []), ...ids.slice(i + 1)];
    }
    start -= data[i].length;
  }
  return [];
}
