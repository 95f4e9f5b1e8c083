// The drafter's first context: 04-speculation.md, "The first context".

import { decode } from '../text/utf8.mjs';

const WITHOUT_DRAFTER = new Set(['plain', 'lookup']);

const begins = (prompt, known) => known.length <= prompt.length && known.every((id, i) => prompt[i] === id);

/** before: {mode, tokens, context} of the generation before, or null. Draft ids without bos. */
export function firstContext({ mode, target, drafter, prompt, before }) {
  if (WITHOUT_DRAFTER.has(mode)) return [];
  const bytes = (ids) => ids.flatMap((id) => [...(target.bytesOf(id) ?? [])]);
  const encode = (ids) => drafter.encode(decode(bytes(ids)));
  const goesOn = before !== null && !WITHOUT_DRAFTER.has(before.mode) && before.context.length > 0 && begins(prompt, before.tokens);
  if (!goesOn) return encode(prompt);
  const fresh = prompt.slice(before.tokens.length);
  return [...before.context, ...(drafter.spell(bytes(fresh)) ?? encode(fresh))];
}
