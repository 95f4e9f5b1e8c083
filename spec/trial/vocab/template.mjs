// The prompt of a conversation: 01-tokens.md, encode_prompt; 03-bundle.md, "The prompt".

/** Ids of earlier turns {message, answer} and of a message, or null where the four strings serve single turns only. */
export function conversation(tokenizer, { prefix, suffix, between, after }, turns, message) {
  if (turns.length > 0 && (between === null || after === null)) return null;
  const ids = [];
  [...turns, { message, answer: [] }].forEach((turn, i) => {
    const strings = i === 0 ? [prefix, turn.message, suffix] : [between, turn.message, after];
    ids.push(...tokenizer.encodePrompt(...strings, i > 0), ...turn.answer);
  });
  return ids;
}
