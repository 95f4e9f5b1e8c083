// Opening a bundle: 03-bundle.md, "The seal" and "Order of the checks".

import { createHash } from 'node:crypto';
import { JsonError, readJson } from './json.mjs';
import { fieldsAreRight, modelsOf, pathsOf } from './manifest.mjs';
import { digest, integer } from './schema.mjs';

const MOST_BYTES = 4194304;
const HEAD = '{"seal": "';
const AFTER_SEAL = HEAD.length + 64;

export class Fault extends Error {
  constructor(fault) {
    super(fault);
    this.fault = fault;
  }
}

const refuse = (fault, when) => {
  if (when) throw new Fault(fault);
};

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

function parsed(bytes) {
  try {
    return readJson(bytes);
  } catch (error) {
    throw error instanceof JsonError ? new Fault('unreadable') : error;
  }
}

function sealed(bytes) {
  const head = bytes.subarray(0, AFTER_SEAL + 2).toString('latin1');
  return head.startsWith(HEAD) && head.endsWith('",') && head.slice(HEAD.length, AFTER_SEAL) === sha256(bytes.subarray(AFTER_SEAL));
}

function inside(name) {
  if (Buffer.byteLength(name) < 1 || Buffer.byteLength(name) > 512 || /[\\:\u0000-\u001f]/.test(name)) return false;
  return name.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

function checkTable(files) {
  refuse('no_hash', !(files instanceof Map) || files.size < 1 || files.size > 1024);
  for (const [name, entry] of files) {
    refuse('outside', !inside(name));
    refuse('no_hash', !(entry instanceof Map) || !digest(entry.get('sha256')));
    refuse('no_hash', !integer(0, Number.MAX_SAFE_INTEGER)(entry.get('bytes')));
  }
}

function checkFile(name, entry, directory) {
  refuse('outside', directory.hasLink(name));
  const bytes = directory.read(name);
  refuse('missing', bytes === null);
  refuse('size', BigInt(bytes.length) !== entry.get('bytes'));
  refuse('checksum', sha256(bytes) !== entry.get('sha256'));
}

/** directory: read(path) -> bytes or null, hasLink(path). Returns the manifest as Map, or throws a Fault. */
export function openBundle(directory) {
  const bytes = directory.read('manifest.json');
  refuse('no_bundle', bytes === null);
  refuse('unreadable', bytes.length > MOST_BYTES);
  const manifest = parsed(bytes);
  refuse('not_a_bundle', !(manifest instanceof Map) || manifest.get('format') !== 'omnidraft.bundle');
  refuse('version', manifest.get('version') !== 3n);
  refuse('seal', !sealed(bytes));
  refuse('field', !fieldsAreRight(manifest));
  const files = manifest.get('files');
  checkTable(files);
  refuse('no_hash', pathsOf(manifest).some((path) => !files.has(path)));
  for (const model of modelsOf(manifest)) {
    const data = `${model.get('graph')}.data`;
    refuse('no_hash', directory.read(data) !== null && !files.has(data));
  }
  for (const [name, entry] of files) checkFile(name, entry, directory);
  return manifest;
}

/** Values of json.mjs as plain values. */
export function plain(value) {
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, item]) => [name, plain(item)]));
  if (Array.isArray(value)) return value.map(plain);
  return typeof value === 'bigint' ? Number(value) : value;
}
