// The prompt of a conversation: 01-tokens.md, encode_prompt and conversation; 03-bundle.md, "The prompt".

import { givenAnswer } from '../text/thought.mjs';

/** Ids of earlier turns {message, answer} and of a message, or null where the strings cannot express them. */
export function conversation(tokenizer, { prefix, suffix, between, after, begin, slot, system }, turns, message) {
  if (turns.length > 0 && (between === null || after === null)) return null;
  if (system !== null && slot === null) return null;
  const ids = [];
  [...turns, { message, answer: [] }].forEach((turn, i) => {
    const first = system === null ? [prefix] : [slot.before, system, slot.after];
    const behind = (i === 0 ? suffix : after) + (i === turns.length ? begin : '');
    ids.push(...tokenizer.encodePrompt([...(i === 0 ? first : [between]), turn.message, behind], i > 0), ...turn.answer);
  });
  return ids;
}

/** Ids of an earlier answer that a program gives as text. */
export function givenIds(tokenizer, lead, think, text) {
  const answer = givenAnswer(text, think);
  return answer === '' ? [] : tokenizer.encodePrompt(['', lead + answer, ''], true);
}
