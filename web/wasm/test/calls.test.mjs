// Calls in an order that makes no sense are errors, never traps.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { NOW, testkit, verify, wasm } from "./module.mjs";

const record = fs.readFileSync(path.join(testkit, "native/line-blank-before-timestamp.jsonl"));
const question = () => new wasm.Question("a.jsonl", NOW);

test("what comes after the end of a verification is an error", () => {
  for (const held of [0, 1 << 20]) {
    const verifier = new wasm.Verifier(question(), held);
    verifier.push(record);
    while (verifier.finish() === undefined) verifier.push(record);
    assert.throws(() => verifier.finish(), /ended/);
    assert.throws(() => verifier.push(record), /ended/);
    assert.equal(verifier.progress().pass >= 1, true);
  }
});

test("a verification of nothing, and of other bytes in each pass, ends", () => {
  assert.equal(JSON.parse(new wasm.Verifier(question()).finish()).exit, 3);
  const verifier = new wasm.Verifier(question(), 0);
  const others = [record, Buffer.from("{}\n"), record.subarray(0, 3000), Buffer.alloc(70_000, "x\n"), record];
  let report;
  assert.doesNotThrow(() => {
    for (const bytes of [...others, ...others]) {
      try {
        verifier.push(bytes);
        report = verifier.finish();
      } catch (error) {
        report = error.message;
      }
      if (report !== undefined) break;
    }
  });
  assert.equal(typeof report, "string");
});

test("a session answers only when it is open", () => {
  const session = new wasm.Session(question());
  assert.throws(() => session.rows(0, 1), /not open/);
  session.push(record);
  assert.ok(session.open() > 0);
  assert.throws(() => session.open(), /was opened/);
  assert.throws(() => session.push(record), /ended/);
  assert.throws(() => session.turn(4_000_000_000), /no turn/);
  assert.throws(() => session.search("  ", 5), /no word/);
  assert.throws(() => session.prove(1), /cannot be proved/);
  assert.deepEqual(JSON.parse(session.rows(4_000_000_000, 4_000_000_000)), []);
  const empty = new wasm.Session(new wasm.Question("empty.ckpt", NOW));
  assert.throws(() => empty.open(), /no turns/);
  assert.throws(() => empty.rows(0, 1), /could not be opened/);
});

test("questions that make no sense are errors", () => {
  assert.throws(() => new wasm.Question("a", Number.NaN), /moment/);
  assert.throws(() => new wasm.Question("a", -1), /moment/);
  assert.throws(() => question().kind("nothing"), /no kind/);
  assert.throws(() => question().profile("nothing"), /no profile/);
  assert.throws(() => question().thread(""), Error);
  const bad = question();
  bad.trust("a.pem", Buffer.from("no key"));
  assert.throws(() => new wasm.Verifier(bad), /a\.pem/);
  assert.throws(() => new wasm.Verifier(new wasm.Question("", NOW)), /name/);
  assert.throws(() => wasm.checkProof(question(), record), /not a proof/);
  assert.throws(() => wasm.inspectIdentity(record), Error);
});

test("an identity shows its keys and its words", () => {
  const spec = fs.readFileSync(path.join(testkit, "../spec/keys-and-trust.md"), "utf8");
  const line = /^\{"format":"threadseal-identity\/1".*$/m.exec(spec)[0];
  const identity = JSON.parse(wasm.inspectIdentity(Buffer.from(`${line}\n`)));
  assert.equal(identity.words, "field dwarf inspire shove abstract country swap pipe wagon hire sniff slight");
  assert.equal(identity.keys[0].usage, "native");
  const trusting = question();
  trusting.trust("ann.id", Buffer.from(`${line}\n`));
  const report = verify(trusting, fs.readFileSync(path.join(testkit, "transcripts/native/valid.jsonl")));
  assert.equal(report.results[0].signers[0].name, "ann");
});
