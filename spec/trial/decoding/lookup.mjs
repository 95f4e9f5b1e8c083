// Copies of the context: 04-speculation.md, section 3.

const LONGEST = 4;
const SHORTEST = 2;
const LONGEST_MATCH = 6;
export const MOST_COPIED = 48;

/** The position after the latest earlier occurrence of the last `length` tokens, or null. */
function follows(context, length) {
  const end = context.length - length;
  for (let at = end - 1; at >= 0; at--) {
    let i = 0;
    while (i < length && context[at + i] === context[end + i]) i += 1;
    if (i === length) return at + length;
  }
  return null;
}

/** How many tokens right before `from` equal the last tokens. */
function matchAt(context, from) {
  let match = 0;
  while (match < LONGEST_MATCH && match < from && context[from - 1 - match] === context[context.length - 1 - match]) match += 1;
  return match;
}

/** {copy, match}: `count` tokens, or none. */
export function find(context, count = MOST_COPIED) {
  for (let length = LONGEST; length >= SHORTEST; length--) {
    const from = follows(context, length);
    if (from === null) continue;
    const text = Array.from(context);
    for (let i = 0; i < count; i++) text.push(text[from + i]);
    return { copy: text.slice(context.length), match: matchAt(context, from) };
  }
  return { copy: [], match: 0 };
}
