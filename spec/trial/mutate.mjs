// Breaks the trial on purpose and tells which breakages the vectors catch: node spec/trial/mutate.mjs [--json] [--only NAME,...]
//
// Each mutant of mutations.mjs is a copy of the trial with one replacement. It is caught if run.mjs fails on it (or
// takes too long), else it survives. Exit status 1 if a mutant survives that is not named equivalent, if one that is
// named equivalent is caught, or if a replacement does not fit the source exactly once.

import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MUTATIONS } from './mutations.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const GIVEN = join(HERE, '..', 'vectors');
const PARTS = ['decoding', 'files', 'text', 'vocab', 'folders.mjs', 'run.mjs', 'package.json'];
const WORKERS = 2;
const SECONDS = 60;

const flag = (name) => process.argv.includes(name);
const only = process.argv.includes('--only') ? new Set(process.argv[process.argv.indexOf('--only') + 1].split(',')) : null;

/** The text of a file with the replacement, which must fit exactly once. */
function broken({ name, file, from, to }) {
  const source = readFileSync(join(HERE, file), 'utf8');
  const parts = source.split(from);
  if (parts.length !== 2) throw new Error(`${name}: the text to replace occurs ${parts.length - 1} times in ${file}: ${from}`);
  return parts.join(to);
}

function prepare(mutation) {
  const folder = mkdtempSync(join(tmpdir(), 'omnidraft-trial-'));
  for (const part of PARTS) cpSync(join(HERE, part), join(folder, part), { recursive: true });
  writeFileSync(join(folder, mutation.file), broken(mutation));
  return folder;
}

/** {caught, by}: by is the first failure of the run. */
function run(mutation) {
  const folder = prepare(mutation);
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(folder, 'run.mjs'), '--vectors', VECTORS, '--quiet', '--first', '--begin', mutation.begin]);
    let said = '';
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      child.kill('SIGKILL');
    }, SECONDS * 1000);
    child.stdout.on('data', (data) => (said += data));
    child.stderr.on('data', (data) => (said += data));
    child.on('close', (code) => {
      clearTimeout(timer);
      rmSync(folder, { recursive: true });
      resolve({ caught: code !== 0, by: late ? `more than ${SECONDS} s` : said.split('\n')[0].slice(0, 160) });
    });
  });
}

async function all(mutations) {
  const results = new Array(mutations.length);
  let next = 0;
  async function worker() {
    while (next < mutations.length) {
      const i = next++;
      results[i] = { ...mutations[i], ...(await run(mutations[i])) };
    }
  }
  await Promise.all(Array.from({ length: WORKERS }, worker));
  return results;
}

function verdict({ caught, equivalent }) {
  if (caught) return equivalent === undefined ? 'caught' : 'caught, but named equivalent';
  return equivalent === undefined ? 'survived' : 'equivalent';
}

function print(results) {
  const counts = {};
  for (const result of results) {
    const word = verdict(result);
    counts[word] = (counts[word] ?? 0) + 1;
    const reason = word === 'caught' ? result.by.split(': ')[0] : word === 'equivalent' ? result.equivalent : result.why;
    console.log(`${word.padEnd(11)} ${result.name.padEnd(34)} ${reason}`);
  }
  console.log(`${results.length} mutants: ${Object.entries(counts).map(([word, n]) => `${n} ${word}`).join(', ')}`);
}

const names = MUTATIONS.map((m) => m.name);
if (new Set(names).size !== names.length) throw new Error('two mutations have one name');
const chosen = MUTATIONS.filter((m) => only === null || only.has(m.name));
for (const mutation of MUTATIONS) broken(mutation); // of a few, too: what no longer fits is told
// All mutants see the same vectors, also where somebody writes new ones meanwhile.
const VECTORS = mkdtempSync(join(tmpdir(), 'omnidraft-vectors-'));
cpSync(GIVEN, VECTORS, { recursive: true });
process.on('exit', () => rmSync(VECTORS, { recursive: true }));

const whole = await run({ name: 'nothing', file: 'decoding/random.mjs', from: 'SplitMix64 {', to: 'SplitMix64 {', begin: 'random' });
if (whole.caught) throw new Error(`the trial itself fails: ${whole.by}`);
const results = await all(chosen);
if (flag('--json')) console.log(JSON.stringify(results.map((r) => ({ name: r.name, file: r.file, why: r.why, verdict: verdict(r), by: r.by }))));
else print(results);
process.exitCode = results.some((r) => r.caught !== (r.equivalent === undefined)) ? 1 : 0;
