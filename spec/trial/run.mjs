// Runs the vectors of level core: node spec/trial/run.mjs [--vectors FOLDER] [--only FOLDER] [--begin FOLDER] [--quiet] [--first]
//
// Exit status 0 if all vectors passed and their numbers are those of manifest.json; else 1, with each failure.
// --begin runs this folder before the others, --first ends at the first failure, --quiet prints failures only.

import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { FOLDERS, readMap } from './folders.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const TOLERANCES = { sampling: 1e-12, verify: 1e-12, logprobs: 1e-6, draft_length: 1e-12 };

const option = (name) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : null);
const flag = (name) => process.argv.includes(name);
const VECTORS = option('--vectors') ?? join(HERE, '..', 'vectors');
const json = (...path) => JSON.parse(readFileSync(join(VECTORS, ...path), 'utf8'));

const loaded = new Map();
function maps(name) {
  if (!loaded.has(name)) loaded.set(name, readMap(json('maps', `${name}.json`)));
  return loaded.get(name);
}

/** Equal; numbers that are no integers within the folder's tolerance, and 0 in the same places. */
function same(got, want, tolerance) {
  if (typeof got === 'number' && typeof want === 'number') {
    if (tolerance === undefined || got === want) return got === want;
    return Math.abs(got - want) <= tolerance && (got === 0) === (want === 0);
  }
  if (Array.isArray(got) && Array.isArray(want)) {
    return got.length === want.length && got.every((x, i) => same(x, want[i], tolerance));
  }
  if (got !== null && want !== null && typeof got === 'object' && typeof want === 'object') {
    const keys = Object.keys(want);
    return isDeepStrictEqual(keys.sort(), Object.keys(got).sort()) && keys.every((k) => same(got[k], want[k], tolerance));
  }
  return got === want;
}

/** The first key of `expect` that differs, or null. */
async function difference(folder, vector) {
  let got;
  try {
    got = await FOLDERS[folder](vector.input, vector.expect, maps, join(VECTORS, folder));
  } catch (error) {
    return `threw ${error.stack.split('\n').slice(0, 3).join(' ')}`;
  }
  for (const [key, want] of Object.entries(vector.expect)) {
    if (!same(got[key], want, TOLERANCES[folder])) {
      return `${key}: got ${JSON.stringify(got[key])}, want ${JSON.stringify(want)}`;
    }
  }
  return null;
}

function vectorsOf(folder) {
  const files = readdirSync(join(VECTORS, folder)).filter((name) => name.endsWith('.json')).sort();
  const lists = files.map((name) => json(folder, name));
  return lists.filter((list) => Array.isArray(list) && list.every((v) => v !== null && !Array.isArray(v) && typeof v === 'object')).flat();
}

async function main() {
  const manifest = json('manifest.json');
  const only = option('--only');
  const claimed = Object.entries(manifest.levels.core).filter(([name]) => (only === null || name === only));
  claimed.sort(([a], [b]) => Number(b === option('--begin')) - Number(a === option('--begin')));
  const failures = [];
  let together = 0;
  for (const [folder, count] of claimed) {
    const vectors = folder in FOLDERS ? vectorsOf(folder) : [];
    let passed = 0;
    for (const vector of vectors) {
      const why = await difference(folder, vector);
      if (why === null) passed += 1;
      else failures.push(`${folder}/${vector.name}: ${why}`);
      if (why !== null && flag('--first')) break;
    }
    if (!(folder in FOLDERS)) failures.push(`${folder}: the trial does not know this folder`);
    else if (vectors.length !== count) {
      failures.push(`${folder}: ${vectors.length} vectors, the manifest has ${count}`);
    }
    if (!flag('--quiet')) console.log(`${folder.padEnd(16)}${String(passed).padStart(5)} of ${count}`);
    together += passed;
    if (failures.length > 0 && flag('--first')) break;
  }
  if (!flag('--quiet')) console.log(`${'together'.padEnd(16)}${String(together).padStart(5)} passed, ${failures.length} failures`);
  for (const line of failures) console.log(line.slice(0, 1500));
  process.exitCode = failures.length === 0 ? 0 : 1;
}

await main();
