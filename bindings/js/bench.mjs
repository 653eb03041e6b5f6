// How many events a second the recorder takes from Node, and what the same costs without it.
//
//   THREADSEAL=COMMAND node bench.mjs     in the folder `app` that run.sh made, with a release build
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Recorder, verifyFile } from "threadseal/node";

const command = process.env.THREADSEAL ?? "threadseal";
const cwd = fs.mkdtempSync(path.join(process.env.BENCH_FOLDER ?? os.tmpdir(), "threadseal-bench-"));
const options = { command, cwd, home: path.join(cwd, "home"), sealAfter: 86_400 };
const payload = { role: "assistant", text: "x".repeat(400), usage: { input_tokens: 10, output_tokens: 20 } };
const line = `${JSON.stringify({ type: "note", payload })}\n`;
spawnSync(command, ["--home", options.home, "init", "-q"], { cwd });

/** Runs `body` once and prints its rate. */
async function measure(name, count, body) {
  const begin = performance.now();
  await body(count);
  const seconds = (performance.now() - begin) / 1000;
  console.log(`${name.padEnd(58)} ${Math.round(count / seconds).toString().padStart(8)} events/s  ${((seconds / count) * 1e6).toFixed(1).padStart(9)} µs each`);
}

async function recording(thread, body) {
  const recorder = await Recorder.start(thread, options);
  await body(recorder);
  await recorder.end();
}

await recording("bench/one", (recorder) => measure("append, each awaited until durable", 2000, async (count) => {
  for (let at = 0; at < count; at += 1) await recorder.append("note", payload);
}));
await recording("bench/turns", (recorder) => measure("append awaited, a seal after each", 300, async (count) => {
  for (let at = 0; at < count; at += 1) {
    await recorder.append("note", payload);
    await recorder.seal();
  }
}));
await recording("bench/64", (recorder) => measure("append, 64 at a time", 64_000, async (count) => {
  for (let at = 0; at < count; at += 64) await Promise.all(Array.from({ length: 64 }, () => recorder.append("note", payload)));
}));
await recording("bench/stream", (recorder) => measure("append, held back by `ready` alone", 200_000, async (count) => {
  const sent = [];
  for (let at = 0; at < count; at += 1) {
    await recorder.ready;
    sent.push(recorder.append("note", payload));
  }
  await Promise.all(sent);
}));
await measure("the command alone, lines from a file", 200_000, async (count) => {
  const input = line.repeat(count);
  spawnSync(command, ["--home", options.home, "record", "-q", "--thread", "bench/pipe", "--on-eof", "complete", "--seal-after", "86400"], { cwd, input, maxBuffer: 1 << 30 });
});
await measure("JSON.stringify alone", 200_000, async (count) => {
  for (let at = 0; at < count; at += 1) JSON.stringify({ type: "note", payload });
});
await measure("begin and end of a record", 20, async (count) => {
  for (let at = 0; at < count; at += 1) await recording(`bench/empty-${at}`, async () => {});
});
const keys = JSON.parse(spawnSync(command, ["--home", options.home, "key", "list", "--json"], { cwd, encoding: "utf8" }).stdout).keys;
const trust = keys.find(({ usage }) => usage === "native").public;
const file = path.join(cwd, "bench-stream.jsonl");
await measure(`verifyFile, ${(fs.statSync(file).size / 1e6).toFixed(0)} MB`, 200_000, async () => {
  (await verifyFile(file, { trust })).require();
});
fs.rmSync(cwd, { recursive: true });
