// The n-gram cache in memory: 06-ngram-cache.md, "Learning and eviction".

export const MOST = 2 ** 32 - 1;

/** Negative where entry a is evicted before b. */
const order = (a, b) => a.hits - b.hits || a.tick - b.tick || a.target_id - b.target_id;

export class NgramCache {
  constructor(map, capacity) {
    Object.assign(this, { map, capacity, tick: 0, entries: new Map() });
  }

  insert(target, counts = {}) {
    while (this.entries.size >= this.capacity) this.evict();
    this.entries.set(target, { target_id: target, hits: 0, accepted: 0, tick: this.tick, ...counts });
  }

  /** Insert every n-gram of the map that is missing, with room for all of them. */
  prefill() {
    const missing = this.map.leaves.filter((target) => this.map.isNgram(target) && !this.entries.has(target));
    this.capacity = Math.max(this.capacity, this.entries.size + missing.length);
    for (const target of missing) this.insert(target);
  }

  evict() {
    let first = null;
    for (const entry of this.entries.values()) if (first === null || order(entry, first) < 0) first = entry;
    this.entries.delete(first.target_id);
  }

  /** Learn a round: `accepted` of the emitted tokens were proposed. Returns the number of new entries. */
  learn(emitted, accepted) {
    this.tick = Math.min(MOST, this.tick + 1);
    let created = 0;
    emitted.forEach((target, i) => {
      if (!this.entries.has(target)) {
        if (!this.map.isNgram(target)) return;
        this.insert(target);
        created += 1;
      }
      const entry = this.entries.get(target);
      entry.hits = Math.min(MOST, entry.hits + 1);
      if (i < accepted) entry.accepted = Math.min(MOST, entry.accepted + 1);
      entry.tick = this.tick;
    });
    return created;
  }

  get table() {
    return [...this.entries.values()].sort((a, b) => a.target_id - b.target_id);
  }
}
