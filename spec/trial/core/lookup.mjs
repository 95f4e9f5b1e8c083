// Copying from the context: 04-speculation.md, section 3.

const LONGEST = 4;
const SHORTEST = 2;

function follows(context, length) {
  const end = context.length - length;
  for (let at = end - 1; at >= 0; at--) {
    let i = 0;
    while (i < length && context[at + i] === context[end + i]) i += 1;
    if (i === length) return at + length;
  }
  return null;
}

/** The tokens to copy. */
export function copies(context, count) {
  for (let length = Math.min(LONGEST, context.length - 1); length >= SHORTEST; length--) {
    const from = follows(context, length);
    if (from === null) continue;
    const text = Array.from(context);
    for (let i = 0; i < count; i++) text.push(text[from + i]);
    return text.slice(context.length);
  }
  return [];
}
