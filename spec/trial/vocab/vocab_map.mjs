// The vocabulary map and the trie of active spellings: 03-bundle.md, "vocab_map.safetensors"; 04-speculation.md, section 4.

export class VocabMap {
  /** tables: the map's tables, with lists for ragged rows. */
  constructor(tables) {
    Object.assign(this, tables);
    this.bannedTrie = this.banned((id) => this.draft_allowed[id] === 1);
    this.bannedDirect = this.banned((id) => this.direct[id] >= 0);
    this.leafSet = new Set(this.leaves);
  }

  banned(allowed) {
    return [...this.draft_allowed.keys()].filter((id) => !allowed(id));
  }

  isNgram(target) {
    return this.leafSet.has(target) && this.spellings[target].length >= 2 && this.spellings[target].length <= 255;
  }
}

class Node {
  constructor(path) {
    this.path = path;
    this.children = new Map();
    this.terminal = null;
    this.targets = [];
  }

  /** Draft ids of the children, ascending. */
  get draftIds() {
    return [...this.children.keys()].sort((a, b) => a - b);
  }
}

/** The root of the trie of direct pairs and these n-grams. */
export function trie(map, ngrams) {
  const root = new Node([]);
  const active = new Set(ngrams);
  for (const target of map.leaves) {
    const spelling = map.spellings[target];
    if (spelling.length > 1 && !active.has(target)) continue;
    let node = root;
    root.targets.push(target);
    for (const d of spelling) {
      if (!node.children.has(d)) node.children.set(d, new Node([...node.path, d]));
      node = node.children.get(d);
      node.targets.push(target);
    }
    node.terminal = target;
  }
  return root;
}
