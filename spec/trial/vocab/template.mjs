// The prompt of a conversation: 01-tokens.md, encode_prompt and conversation; 03-bundle.md, "The prompt".

import { givenAnswer, trimmed } from '../text/thought.mjs';

const ANSWERS = ['answer_start', 'answer_end']; // where `trim` is absent
const ends = (trim, start, end) => [start, end].map((name) => (trim ?? ANSWERS).includes(name));

/** Ids of earlier turns {message, answer} and of a message, or null where the strings cannot express them. */
export function conversation(tokenizer, { prefix, suffix, between, after, begin, slot, system, trim }, turns, message) {
  if (turns.length > 0 && (between === null || after === null)) return null;
  if (system !== null && slot === null) return null;
  const ids = [];
  [...turns, { message, answer: [] }].forEach((turn, i) => {
    const first = system === null ? [prefix] : [slot.before, trimmed(system, ends(trim, 'system_start', 'system_end')), slot.after];
    const start = system === null ? 'first_start' : 'behind_start';
    const text = trimmed(turn.message, i === 0 ? ends(trim, start, 'first_end') : ends(trim, 'later_start', 'later_end'));
    const behind = (i === 0 ? suffix : after) + (i === turns.length ? begin : '');
    ids.push(...tokenizer.encodePrompt([...(i === 0 ? first : [between]), text, behind], i > 0), ...turn.answer);
  });
  return ids;
}

/** Ids of an earlier answer that a program gives as text. */
export function givenIds(tokenizer, lead, think, trim, text) {
  return tokenizer.encodePrompt(['', lead + givenAnswer(text, think, ends(trim, ...ANSWERS)), ''], true);
}
