// The turns of a file, as `show` has them, and what is sealed of each.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { NOW, chunks, instance, testkit, wasm } from "./module.mjs";

const KEY = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
const OBSERVED_KEY = "ed4928c628d1c2c6eae90338905995612959273a5c63f93636c14614ac8737d1";
const folder = path.join(testkit, "transcripts/native");

function open(name, bytes, { seal, keys = [["native", KEY]], size = 1000 } = {}) {
  const question = new wasm.Question(name, NOW);
  for (const [usage, key] of keys) question.trustFor(usage, key);
  if (seal) question.seal(seal);
  question.size(bytes.length);
  const session = new wasm.Session(question);
  for (const chunk of chunks(bytes, [size])) session.push(chunk);
  session.open();
  const rows = JSON.parse(session.rows(0, 1 << 20));
  return { session, rows, report: JSON.parse(session.report()), summary: JSON.parse(session.summary()) };
}

/** A log of Claude Code with a question, a call, its result, and a subagent's words. */
function claude() {
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } };
  const base = (uuid, parentUuid, second) => ({
    uuid, parentUuid, sessionId: "s", cwd: "/src/api", version: "2.1.0", isSidechain: false, userType: "external",
    timestamp: `2026-11-21T20:41:${String(second).padStart(2, "0")}.000Z`,
  });
  const usage = { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 4 };
  const says = (content) => ({ id: "m1", type: "message", role: "assistant", model: "claude-sonnet-4-5", content, usage });
  return [
    { ...base("1", null, 1), type: "user", message: { role: "user", content: [{ type: "text", text: "List the FILES, please" }, image] } },
    { ...base("2", "1", 2), type: "assistant", message: says([{ type: "thinking", thinking: "ls will do", signature: "x" }, { type: "text", text: "I list them." }, { type: "tool_use", id: "t1", name: "Bash", input: { command: "ls" } }]) },
    { ...base("3", "2", 3), type: "user", message: { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "überraschung.txt", is_error: true }] } },
    { ...base("4", "3", 4), type: "user", isSidechain: true, message: { role: "user", content: "beside the line" } },
  ].map((line) => `${JSON.stringify(line)}\n`).join("");
}

test("the turns of an agent's log are those of its mapping", () => {
  const { session, rows, summary, report } = open("log.jsonl", Buffer.from(claude()));
  assert.equal(summary.kind, "session");
  assert.equal(summary.format, "claude-code");
  assert.equal(summary.turns, 4);
  assert.equal(summary.tool_calls, 1);
  assert.equal(report.results[0].verdict, "unsigned");
  assert.deepEqual(rows.map((row) => row.role), ["user", "assistant", "tool", "user"]);
  assert.deepEqual(rows[1].tools, ["Bash"]);
  assert.deepEqual(rows[1].lines, [2, 2]);
  assert.equal(rows[1].tokens.output, 5);
  assert.equal(rows[2].failed, 1);
  assert.equal(rows[3].sidechain, true);
  assert.ok(rows.every((row) => row.seal.state === "unsealed"));
  const [first, second] = [0, 1].map((turn) => JSON.parse(session.turn(turn)));
  assert.deepEqual(first.texts.map((item) => item.type), ["text", "image"]);
  assert.equal(JSON.parse(first.texts[1].text).source.data, "iVBORw0KGgo=");
  assert.deepEqual(second.texts.map((item) => item.type), ["thinking", "text"]);
  assert.equal(second.calls[0].name, "Bash");
  assert.deepEqual(JSON.parse(second.calls[0].args), { command: "ls" });
  assert.equal(second.source.id, "2");
});

test("words are found in any case, in turns of any kind", () => {
  const { session } = open("log.jsonl", Buffer.from(claude()));
  const found = (query, most = 10) => JSON.parse(session.search(query, most));
  assert.deepEqual(found("files").hits.map((hit) => hit.turn), [0]);
  assert.deepEqual(found("LIST th*").hits.map((hit) => hit.turn), [0, 1]);
  assert.deepEqual(found('"list them"').hits.map((hit) => hit.turn), [1]);
  assert.deepEqual(found("ÜBERRASCHUNG").hits.map((hit) => hit.turn), [2]);
  assert.deepEqual(found("bash").hits.map((hit) => hit.turn), [1]);
  assert.deepEqual(found("nowhere"), { hits: [], more: false });
  assert.deepEqual(found("l*", 1).more, true);
});

test("a native record has its turns, its seals and their state", () => {
  const bytes = fs.readFileSync(path.join(folder, "valid.jsonl"));
  const { session, rows, summary, report } = open("valid.jsonl", bytes);
  assert.equal(summary.kind, "transcript");
  assert.equal(report.results[0].verdict, "verified");
  assert.ok(rows.length > 1 && summary.seals.length > 0);
  assert.ok(rows.every((row) => row.seal.state === "sealed" && row.seal.time !== null));
  const last = rows.at(-1);
  assert.equal(last.bytes[1], bytes.length - 1);
  const turn = JSON.parse(session.turn(last.turn));
  assert.ok(turn.events.length > 0);
  const stranger = open("valid.jsonl", bytes, { keys: [] });
  assert.ok(stranger.rows.every((row) => row.seal.state === "other_signer"));
});

test("a changed record shows where it was changed, and what no seal covers", () => {
  const edited = open("turn_edited.jsonl", fs.readFileSync(path.join(folder, "turn_edited.jsonl")));
  assert.equal(edited.report.exit, 1);
  const states = edited.rows.map((row) => row.seal.state);
  assert.ok(states.includes("changed"), states);
  assert.ok(!states.slice(states.indexOf("changed")).includes("sealed"), states);
  const torn = open("event_appended.jsonl", fs.readFileSync(path.join(folder, "event_appended.jsonl")));
  assert.equal(torn.report.results[0].verdict, "unsigned_tail");
  assert.equal(torn.rows.at(-1).seal.state, "unsealed");
});

test("a proof of a turn is made and checked, of records and of logs", () => {
  const bytes = fs.readFileSync(path.join(folder, "valid.jsonl"));
  const native = open("valid.jsonl", bytes);
  const turn = native.rows.find((row) => row.turn > 0).turn;
  const question = new wasm.Question("proof", NOW);
  question.trustFor("native", KEY);
  question.trustFor("observed", OBSERVED_KEY);
  const checked = JSON.parse(wasm.checkProof(question, native.session.prove(turn)));
  assert.equal(checked.turn, turn);
  assert.equal(checked.result.verdict, "verified");
  const log = fs.readFileSync(path.join(folder, "observed.jsonl"));
  const seal = fs.readFileSync(path.join(folder, "observed.jsonl.seal"));
  const keys = [["observed", JSON.parse(seal.toString().split("\n")[0]).key]];
  const observed = open("observed.jsonl", log, { seal, keys });
  const proof = observed.session.prove(observed.rows[0].turn);
  const own = new wasm.Question("proof", NOW);
  own.trustFor("observed", keys[0][1]);
  const lines = JSON.parse(wasm.checkProof(own, proof));
  assert.equal(lines.result.verdict, "verified");
  assert.equal(lines.lines[0].text, log.toString().split("\n")[0]);
  const edited = open("observed.jsonl", Buffer.from(log.toString().replace("1", "3")), { seal, keys });
  assert.throws(() => edited.session.prove(observed.rows[0].turn), /cannot be proved|not the one/);
});

test("every record of the testkit opens or is refused, and each of its turns can be shown", () => {
  const folders = ["transcripts/native", "transcripts/rye", "scroll/chains", "scroll/attacks", "ledger/chains", "native", "observed"];
  let turns = 0;
  for (const name of folders.flatMap((folder) => fs.readdirSync(path.join(testkit, folder)).map((file) => path.join(folder, file)))) {
    const file = path.join(testkit, name);
    if (!fs.statSync(file).isFile()) continue;
    const seal = fs.existsSync(`${file}.seal`) ? fs.readFileSync(`${file}.seal`) : undefined;
    let opened;
    try {
      opened = open(name, fs.readFileSync(file), { seal });
    } catch (error) {
      assert.match(error.message, /no turns to show/, name);
      continue;
    }
    for (const row of opened.rows) {
      assert.equal(JSON.parse(opened.session.turn(row.turn)).turn, row.turn);
      turns += 1;
    }
    opened.session.free();
  }
  assert.ok(turns > 3000, `${turns} turns`);
});

test("a long record is verified in the memory of a few chunks", () => {
  const valid = fs.readFileSync(path.join(folder, "valid.jsonl"));
  const line = Buffer.from(`{"type":"user","text":"${"x".repeat(2000)}"}\n`.repeat(500));
  const question = new wasm.Question("long.jsonl", NOW);
  question.trustFor("native", KEY);
  const before = instance.memory.buffer.byteLength;
  for (const start of [valid, line]) {
    const verifier = new wasm.Verifier(question);
    let report;
    for (let pass = 0; report === undefined && pass < 4; pass += 1) {
      verifier.push(start);
      for (let pushed = 0; pushed < 96 << 20; pushed += line.length) verifier.push(line);
      assert.equal(verifier.progress().streamed, true);
      assert.equal(verifier.progress().held, 0);
      report = verifier.finish();
    }
    assert.ok(JSON.parse(report).results.length === 1);
  }
  const grown = instance.memory.buffer.byteLength - before;
  assert.ok(grown < 40 << 20, `${grown} bytes more for two files of 96 MiB`);
});
