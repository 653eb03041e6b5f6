#!/usr/bin/env node
// Measures a build: streams a file through the verifier, beside two passes of SHA-256 of the same module, and
// opens and searches it.
//
//   THREADSEAL_WASM=FOLDER node web/wasm/bench.mjs FILE [--key HEX:USAGE]… [--search WORD]
import fs from "node:fs";
import { instance, wasm } from "./test/module.mjs";

const CHUNK = 1 << 20;
const [file, ...options] = process.argv.slice(2);
const values = (flag) => options.flatMap((word, at) => (word === flag ? [options[at + 1]] : []));
const size = fs.statSync(file).size;
const mib = (bytes) => `${(bytes / (1 << 20)).toFixed(1)} MiB`;

function read(each) {
  const handle = fs.openSync(file, "r");
  const chunk = Buffer.alloc(CHUNK);
  for (let length; (length = fs.readSync(handle, chunk)) > 0; ) each(chunk.subarray(0, length));
  fs.closeSync(handle);
}

function timed(name, run) {
  const [begin, before] = [process.cpuUsage().user, instance.memory.buffer.byteLength];
  const result = run();
  // Time of the processor: others may use it, too.
  const seconds = (process.cpuUsage().user - begin) / 1e6;
  const grown = instance.memory.buffer.byteLength - before;
  console.log(`${name}: ${seconds.toFixed(3)} s, ${(size / 1e6 / seconds).toFixed(0)} MB/s, memory grew by ${mib(grown)}`);
  return [result, seconds];
}

function question() {
  const question = new wasm.Question(file, Date.now());
  for (const key of values("--key")) question.trustFor(...key.split(":").reverse());
  if (fs.existsSync(`${file}.seal`)) question.seal(fs.readFileSync(`${file}.seal`));
  question.size(size);
  return question;
}

console.log(`${file}: ${mib(size)}`);
const [, twice] = timed("two passes of SHA-256", () => {
  const [first, second] = [new wasm.Sha256(), new wasm.Sha256()];
  read((chunk) => {
    first.push(chunk);
    second.push(chunk);
  });
  return [first.finish(), second.finish()];
});
let passes = 0;
const [report, once] = timed("verification", () => {
  const verifier = new wasm.Verifier(question());
  for (;;) {
    read((chunk) => verifier.push(chunk));
    passes += 1;
    const report = verifier.finish();
    if (report !== undefined) return JSON.parse(report);
  }
});
console.log(`${report.results.map((result) => result.verdict)} after ${passes} passes; ${(twice / once).toFixed(2)} of the speed of two passes of SHA-256`);
const session = new wasm.Session(question());
const [turns] = timed("opening", () => {
  read((chunk) => session.push(chunk));
  return session.open();
});
console.log(`${turns} turns`);
for (const word of values("--search")) {
  const [hits] = timed(`search of ${word}`, () => JSON.parse(session.search(word, 200)));
  console.log(`${hits.hits.length} hits${hits.more ? ", and more" : ""}`);
}
