// Greedy texts of a real bundle in onnxruntime-node, compared with the ids of `omnidraft generate`.
//
// node spec/trial/starter.mjs BUNDLE --modules FOLDER [--omnidraft PROGRAM] [-n TOKENS]
// FOLDER holds node_modules with onnxruntime-node (package.json names the version). Exit status 1 if an id differs, or
// the number of rounds with 4 draft tokens.

import { execFileSync } from 'node:child_process';
import { lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openBundle, plain } from './files/bundle.mjs';
import { firstContext } from './vocab/context.mjs';
import { DraftLength, FixedLength } from './decoding/draft_length.mjs';
import { Session } from './decoding/generate.mjs';
import { checkModels, readMapFile } from './vocab/map_file.mjs';
import { NgramCache } from './vocab/ngram_cache.mjs';
import { conversation } from './vocab/template.mjs';
import { Tokenizer } from './text/tokenizer.mjs';
import { VocabMap } from './vocab/vocab_map.mjs';
import { OrtGraph, onnxruntime } from './ort_graph.mjs';

const PROMPTS = [
  'How many legs do 3 cats have?', 'Tom has 4 apples and buys 7 more. How many apples does he have?', 'Name three colours.',
  'A train goes 60 miles in 2 hours. How far does it go in 5 hours?', 'Schreibe "Größe" und 雪 noch einmal.',
];
const CAPACITY = 32768;

const option = (name, otherwise) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise);

class Directory {
  constructor(root) {
    this.root = root;
  }

  read(path) {
    try {
      return readFileSync(join(this.root, path));
    } catch {
      return null;
    }
  }

  hasLink(path) {
    const parts = path.split('/');
    return parts.some((_, i) => lstatSync(join(this.root, ...parts.slice(0, i + 1)), { throwIfNoEntry: false })?.isSymbolicLink());
  }
}

/** Both models, their tokenizers and the map of a bundle. */
async function load(root, ort) {
  const manifest = plain(openBundle(new Directory(root)));
  const { target, drafter } = manifest;
  const tables = readMapFile(readFileSync(join(root, manifest.vocab_map)));
  checkModels(tables, {
    draft_size: drafter.vocab_size, target_size: target.vocab_size, draft_fingerprint: drafter.tokenizer_fingerprint,
    target_fingerprint: target.tokenizer_fingerprint,
  });
  const graph = (model) => OrtGraph.open(ort, join(root, model.graph), model.kv);
  const tokenizer = (model) => new Tokenizer(readFileSync(join(root, model.compiled_tokenizer)));
  const map = new VocabMap(tables);
  return { manifest, map, graphs: [await graph(target), await graph(drafter)], tokenizers: [tokenizer(target), tokenizer(drafter)] };
}

async function answer(bundle, message, mode, k, maxNewTokens) {
  const { manifest: { target, drafter, prompt, costs }, map, graphs, tokenizers } = bundle;
  const ids = conversation(tokenizers[0], { ...prompt, slot: prompt.system, system: null }, [], message);
  const context = firstContext({ mode, target: tokenizers[0], drafter: tokenizers[1], prompt: ids, before: null });
  const session = new Session({
    map, cache: new NgramCache(map, CAPACITY), target: graphs[0], targetLength: target.kv.max_length, drafter: graphs[1],
    drafterLength: drafter.kv.max_length, bos: drafter.bos_id === null ? [] : [drafter.bos_id],
  });
  const length = k === 'auto' ? new DraftLength(costs) : new FixedLength(k, mode);
  const settings = { mode, verification: 'token', sampling: {}, seed: 0n, length, maxNewTokens, eosIds: target.eos_ids };
  return session.generate(ids, context, settings);
}

function reference(program, root, message, maxNewTokens) {
  const words = ['generate', root, message, '-n', String(maxNewTokens), '-k', '4', '--json'];
  return JSON.parse(execFileSync(program, words, { encoding: 'utf8' }));
}

const root = process.argv[2];
const tokens = Number(option('-n', '32'));
const bundle = await load(root, onnxruntime(option('--modules', '.')));
for (const message of PROMPTS) {
  const want = reference(option('--omnidraft', 'omnidraft'), root, message, tokens);
  for (const [mode, k] of [['plain', 0], ['trie', 4], ['trie', 'auto']]) {
    const { tokens: got, rounds } = await answer(bundle, message, mode, k, tokens);
    const ids = got.length === want.token_ids.length && got.every((id, i) => id === want.token_ids[i]);
    const same = ids && (k !== 4 || rounds.length === want.rounds);
    console.log(`${same ? 'equal' : 'DIFFERS'}  ${`${mode} ${k}`.padEnd(11)}${String(got.length).padStart(4)} ids in ${String(rounds.length).padStart(3)} rounds  ${message}`);
    if (!same) process.exitCode = 1;
  }
}
