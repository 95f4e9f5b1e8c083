// A draft becomes a proposal: 04-speculation.md, section 4.

export const BEGIN = 'begin';
export const GO_ON = 'go on';
export const END = 'end';
export const DEAD_END = 'dead end';
export const EXPAND = 'expand';

/** Tokens of the proposal; `ends` and `starts`: the draft tokens up to, and before, each of them. */
class Proposal {
  constructor() {
    Object.assign(this, { tokens: [], starts: [], ends: [], decisions: null, tail: null, used: 0 });
  }

  add(token, start, end) {
    this.tokens.push(token);
    this.starts.push(start);
    this.ends.push(end);
  }
}

/** Mode trie and direct above temperature 0. */
export function walk(map, root, draft, most, expand) {
  const proposal = new Proposal();
  const decisions = (proposal.decisions = []);
  const decide = (step, i, more) => decisions.push({ step, draft: i, row: proposal.tokens.length, ...more });
  let node = root;
  let excluded = null; // the node whose children are E
  let start = 0;
  const enter = (child, i) => {
    node = child;
    if (child.terminal === null || child.children.size > 0) return;
    proposal.add(child.terminal, start, i + 1); // END is forced
    node = root;
  };
  let i = 0;
  for (; i < draft.length; i++) {
    const d = draft[i];
    if (node !== root) {
      const child = node.children.get(d);
      if (child !== undefined) {
        decide(GO_ON, i, { at: node, to: child });
        enter(child, i);
        continue;
      }
      if (node.terminal === null) {
        decide(DEAD_END, i, { at: node, to: null });
        proposal.used = i + 1;
        return proposal;
      }
      decide(END, i, { at: node, to: null });
      proposal.add(node.terminal, start, i);
      excluded = node;
      node = root;
    }
    if (proposal.tokens.length >= most) break;
    start = i;
    const child = root.children.get(d);
    const expansion = expand ? map.expansions[d] : [];
    if (child !== undefined) {
      decide(BEGIN, i, { at: root, to: child, excluded });
      enter(child, i);
    } else if (expansion.length > 0 && expansion.length <= most - proposal.tokens.length) {
      for (const token of expansion) {
        decide(EXPAND, i, { at: root, to: null, token });
        proposal.add(token, i, i + 1);
      }
    } else break;
    excluded = null;
  }
  proposal.used = i;
  if (node !== root) proposal.tail = node;
  return proposal;
}

/** The longest active spelling that the draft continues with at `at`, as its node; or null. */
function longestAt(root, draft, at) {
  let best = null;
  let node = root;
  for (let i = at; i < draft.length; i++) {
    node = node.children.get(draft[i]);
    if (node === undefined) break;
    if (node.terminal !== null) best = node;
  }
  return best;
}

/** Mode match and paper, and every mode at temperature 0. */
export function longestFirst(map, root, draft, most, expand) {
  const proposal = new Proposal();
  let at = 0;
  while (at < draft.length) {
    const node = longestAt(root, draft, at);
    const tokens = node !== null ? [node.terminal] : expand ? map.expansions[draft[at]] : [];
    if (tokens.length === 0 || proposal.tokens.length + tokens.length > most) break;
    const end = at + (node !== null ? node.path.length : 1);
    for (const token of tokens) proposal.add(token, at, end);
    at = end;
  }
  proposal.used = at;
  return proposal;
}
