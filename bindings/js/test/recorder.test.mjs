// The recorder through the command: each event acknowledged, what is refused, and what may be continued.
import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { CommandError, InputError, RefusedLineError, VerdictError, verifiedEvents } from "threadseal";
import { MAX_WAITING_BYTES, Recorder, verifyFile } from "threadseal/node";
import { json, scene, tamper } from "./scene.mjs";

const asked = (text) => ["cognition_in", { role: "user", text }];

test("events are durable one by one, sealed and verified", async () => {
  const { options, key, file } = scene();
  const recorder = await Recorder.start("demo/1", { ...options, model: "m-1", capabilities: ["read"], meta: { a: 1 }, limits: { turns: 3 } });
  assert.deepEqual([recorder.recording.thread, recorder.recording.path, recorder.recording.resumed], ["demo/1", "demo-1.jsonl", false]);
  const line = await recorder.append(...asked("How many files?"));
  // Durable means that it is in the file now.
  assert.match(fs.readFileSync(file("demo-1.jsonl"), "utf8").split("\n")[line - 1], /How many files/);
  assert.equal(await recorder.append("cognition_out", { text: "Zwei. \u2028 😀" }), line + 1);
  const sealed = await recorder.seal();
  assert.equal(sealed.cause, "asked");
  await recorder.flush();
  const lines = await Promise.all(Array.from({ length: 50 }, (_, at) => recorder.append("note", { at })));
  assert.deepEqual(lines, lines.map((_, at) => lines[0] + at));
  const ended = await recorder.end("completed", { cost: { turns: 1 } });
  assert.deepEqual([ended.status, ended.exit, ended.refused], ["completed", 0, 0]);
  assert.equal(await recorder.end(), ended);
  await assert.rejects(recorder.append("note", {}), InputError);
  const report = (await verifyFile(file("demo-1.jsonl"), { trust: key })).require();
  assert.equal(report.results[0].head, ended.head);
  assert.equal(json(options, ["verify", "demo-1.jsonl"]).exit, 0);
  const events = [];
  for await (const event of verifiedEvents(fs.readFileSync(file("demo-1.jsonl")), { trust: key })) events.push(event.value);
  assert.deepEqual(events.filter(({ event_type: type }) => type === "note").map(({ payload }) => payload.at), [...lines.keys()]);
});

// T-JS-11
test("a refused line is an error of its call, and of the end", async () => {
  const { options } = scene();
  const recorder = await Recorder.start("demo/1", options);
  await assert.rejects(recorder.append("checkpoint", {}), (error) => error instanceof RefusedLineError && error.code === "type_reserved");
  await assert.rejects(recorder.append("note", { text: "\ud800" }), RefusedLineError);
  await assert.rejects(recorder.append("note", { cost: NaN }), InputError);
  await assert.rejects(recorder.append("note", { big: 1n }), InputError);
  const line = await recorder.append("note", {});
  assert.ok(line > 0);
  await assert.rejects(recorder.end(), (error) => error instanceof CommandError && error.exit === 2 && /2 lines were refused/.test(error.message));
});

// T-JS-10
test("a record that was changed, cut or rolled back between two runs is not continued", async () => {
  for (const [change, verdict] of [
    [(file) => tamper(file, "pay 10", "pay 90"), "tampered"],
    [(file) => fs.writeFileSync(file, fs.readFileSync(file, "utf8").split("\n").slice(0, 2).join("\n") + "\n"), "rolled_back"],
  ]) {
    const { options, file } = scene();
    const first = await Recorder.start("demo/1", options);
    await first.append(...asked("pay 10"));
    await first.end("suspended");
    change(file("demo-1.jsonl"));
    await assert.rejects(Recorder.resume("demo-1.jsonl", { ...options, thread: "demo/2" }), (error) => {
      assert.ok(error instanceof VerdictError, String(error));
      assert.equal(error.report.verdict, verdict);
      return true;
    });
    assert.equal(fs.existsSync(file("demo-2.jsonl")), false);
  }
});

test("a record is continued, after an end and after a kill", async () => {
  const { options, key, file } = scene();
  const first = await Recorder.start("demo/1", options);
  await first.append(...asked("first"));
  const { head } = await first.end("suspended");
  const second = await Recorder.resume("demo-1.jsonl", { ...options, thread: "demo/2", env: { A: "b" } });
  assert.equal(second.recording.continues, head);
  await second.append(...asked("second"));
  await second.end();
  assert.equal(json(options, ["verify", "demo-1.jsonl", "demo-2.jsonl"]).exit, 0);
  assert.ok((await verifyFile(file("demo-2.jsonl"), { trust: key })).verified);

  const third = await Recorder.start("demo/3", options);
  await third.append(...asked("durable"));
  const lost = third.append("note", { text: "x".repeat(100) }).catch((error) => error);
  await killed("demo/3");
  const seen = await lost;
  assert.ok(seen instanceof CommandError || typeof seen === "number", String(seen));
  await assert.rejects(third.append("note", {}), (error) => error instanceof CommandError && error.exit === null);
  await assert.rejects(third.end(), CommandError);
  const fourth = await Recorder.resume("demo-3.jsonl", { ...options, adoptTail: true });
  assert.ok(fourth.recording.resumed && fourth.recording.adopted !== null);
  await fourth.end();
  assert.match(fs.readFileSync(file("demo-3.jsonl"), "utf8"), /durable/);
});

/** Kills the recorder of a thread, a child of this process, and waits until it is gone. */
async function killed(thread) {
  const words = (pid) => fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  const children = fs.readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").trim().split(" ");
  const pid = Number(children.find((child) => words(child).includes(`--thread=${thread}`)));
  process.kill(pid, "SIGKILL");
  while (fs.existsSync(`/proc/${pid}`)) await new Promise((done) => setTimeout(done, 10));
  await new Promise((done) => setTimeout(done, 50));
}

// T-JS-11
test("what is not in the record is an error", async () => {
  const { options } = scene();
  await assert.rejects(Recorder.start("demo/1", { ...options, command: "/nowhere/threadseal" }), (error) => {
    return error instanceof CommandError && /hint: install ThreadSeal/.test(error.message);
  });
  await assert.rejects(Recorder.start("demo/1", { ...options, key: "absent" }), (error) => error instanceof CommandError && error.exit === 2);
  const named = await Recorder.start("demo/0", { ...options, file: "--help" });
  await named.end();
  assert.equal(named.recording.path, "--help");
  const recorder = await Recorder.start("demo/1", options);
  await assert.rejects(Recorder.resume("demo-1.jsonl", options), CommandError, "a record has one writer");
  await recorder.append("note", {});
  // The process of this record alone, as it is named by the file that it holds.
  const sent = recorder.append("note", { text: "x".repeat(100) });
  const lost = recorder.append("note", { text: "x".repeat(17 << 20) });
  await sent;
  await assert.rejects(lost, RefusedLineError);
  await assert.rejects(recorder.end(), CommandError);
});

test("a caller that awaits nothing is held back, and then refused", async () => {
  const { options, file } = scene();
  const recorder = await Recorder.start("demo/1", options);
  const text = "x".repeat(1 << 20);
  const sent = [];
  let blocked = 0;
  for (let at = 0; at < 80; at += 1) {
    const before = performance.now();
    await recorder.ready;
    if (performance.now() - before > 1) blocked += 1;
    sent.push(recorder.append("note", { at, text }));
  }
  await Promise.all(sent);
  assert.ok(blocked > 5, `${blocked} waits`);
  const more = Array.from({ length: MAX_WAITING_BYTES / text.length + 2 }, () => recorder.append("note", { text }));
  const results = await Promise.allSettled(more);
  const refused = results.filter(({ status }) => status === "rejected");
  assert.ok(refused.length >= 1 && refused.every(({ reason }) => reason instanceof InputError && /await/.test(reason.message)));
  await recorder.end();
  assert.ok(fs.statSync(file("demo-1.jsonl")).size > 80 << 20);
});
