// Random numbers and the random source: 04-speculation.md, section 1.

const MASK = (1n << 64n) - 1n;

export class SplitMix64 {
  /** seed: a BigInt; the state is the seed modulo 2^64. */
  constructor(seed) {
    this.state = seed & MASK;
    this.taken = 0;
  }

  next() {
    this.state = (this.state + 0x9e3779b97f4a7c15n) & MASK;
    let z = this.state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
    return z ^ (z >> 31n);
  }

  uniform() {
    this.taken += 1;
    return Number(this.next() >> 11n) * 2 ** -53;
  }
}

/** Answers the random questions of a round; `generator.uniform()` gives numbers in [0, 1). */
export class RandomSource {
  constructor(generator) {
    this.generator = generator;
  }

  bernoulli(x) {
    if (x >= 1) return true;
    if (x <= 0) return false;
    return this.generator.uniform() < x;
  }

  /** The smallest i with w_0 + ... + w_i > uniform * sum(w); never an i of weight zero. */
  categorical(weights) {
    let total = 0;
    for (const w of weights) total += w;
    const edge = this.generator.uniform() * total;
    let sum = 0;
    let answer = weights.length - 1;
    for (let i = 0; i < weights.length; i++) {
      sum += weights[i];
      if (sum > edge) {
        answer = i;
        break;
      }
    }
    while (answer > 0 && weights[answer] === 0) answer -= 1;
    return answer;
  }

  sample(p) {
    return p.certain !== null ? p.certain : this.categorical(p.weights);
  }

  sampleAmong(p, ids) {
    if (ids.length === 1) return ids[0];
    if (p.certain !== null) return p.certain;
    return ids[this.categorical(ids.map((id) => p.weights[id]))];
  }

  /** A token, or null. */
  rejectionSample(p, share) {
    const token = this.sample(p);
    return this.bernoulli(share(token)) ? token : null;
  }
}
