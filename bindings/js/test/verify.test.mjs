// The report is that of the command, and mistakes of a caller are errors that name the next step.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import {
  InputError, Report, ThreadSealError, VerdictError, checkProof, exitOf, openSession, prove, verifiedEvents, verify, version,
} from "threadseal";
import { verifyFile } from "threadseal/node";
import { KEY, command, folder, json, root, testkit } from "./scene.mjs";

const native = path.join(testkit, "transcripts/native");
const valid = fs.readFileSync(path.join(native, "valid.jsonl"));
const read = (name) => fs.readFileSync(path.join(native, name));

const TRUST = `version = 1

[[key]]
name = "testkit"
key = "${KEY}"
usage = ["native", "scroll"]
`;

/** The files of the testkit that stand alone: no companion of another, no database. */
function files() {
  const folders = ["transcripts/native", "transcripts/rye", "documents/native", "scroll/chains", "scroll/attacks", "ledger/chains", "ledger/attacks"];
  const all = folders.flatMap((name) => fs.readdirSync(path.join(testkit, name)).map((file) => path.join(testkit, name, file)));
  const isCompanion = (file) => /\.(seal|head|index)$/.test(file) && fs.existsSync(file.replace(/\.[a-z]+$/, ""));
  return all.filter((file) => fs.statSync(file).isFile() && !isCompanion(file) && !/\.(bodies|db|toml)$/.test(file));
}

test("a file has the report that `threadseal verify --json` prints of it", async () => {
  const here = folder();
  const trustFile = path.join(here, "trust.toml");
  fs.writeFileSync(trustFile, TRUST);
  const home = path.join(here, "home");
  const trust = { name: "trust.toml", bytes: TRUST };
  const ask = promisify(execFile);
  const wrong = [];
  const waiting = files();
  const verdicts = new Set();
  let same = 0;
  const work = async () => {
    for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
      const asked = ask(command, ["--home", home, "verify", "--json", "--trust", trustFile, file], { maxBuffer: 1 << 28 });
      const { stdout } = await asked.catch((error) => error);
      const expected = JSON.parse(stdout);
      const report = await verifyFile(file, { trust });
      for (const result of expected.results) verdicts.add(result.verdict);
      try {
        assert.deepEqual(JSON.parse(JSON.stringify(report)), expected);
        assert.equal(report.verified, expected.exit === 0);
        same += 1;
      } catch (error) {
        wrong.push(`${file}: ${error.message}`);
      }
    }
  };
  await Promise.all([work(), work(), work()]);
  assert.equal(wrong.length, 0, `${wrong.length} differ\n${wrong.slice(0, 5).join("\n")}`);
  assert.ok(same > 200, `${same} reports`);
  for (const verdict of ["verified", "tampered", "forged", "unknown_signer"]) assert.ok(verdicts.has(verdict), verdict);
});

test("a record is verified from bytes, a buffer, a Blob and a stream", async () => {
  const report = await verify(valid, { trust: KEY });
  assert.ok(report instanceof Report);
  assert.deepEqual([report.verified, report.verdict, report.exit, report.schema], [true, "verified", 0, "threadseal.verify/1"]);
  assert.equal(report.require(), report);
  const own = valid.buffer.slice(valid.byteOffset, valid.byteOffset + valid.length);
  async function* stream() {
    for (let at = 0; at < valid.length; at += 100) yield valid.subarray(at, at + 100);
  }
  for (const source of [own, new Blob([valid]), stream]) {
    assert.deepEqual(await verify(source, { trust: KEY }), report);
  }
});

// T-JS-01
test("a changed record is refused with its report, by any trust", async () => {
  const edited = Buffer.from(valid);
  edited[edited.indexOf("payload") + 20] ^= 1;
  for (const [bytes, options, verdict] of [
    [edited, { trust: KEY }, "tampered"],
    [read("turn_edited.jsonl"), { trust: KEY }, "tampered"],
    [valid, {}, "unknown_signer"],
    [valid, { trust: { key: KEY, usage: "observed" } }, "unknown_signer"],
    [Buffer.from('{"a":1}\n{"b":2}\n'), { trust: KEY, kind: "log" }, "unsigned"],
  ]) {
    const report = await verify(bytes, options);
    assert.equal(report.verdict, verdict);
    assert.equal(report.verified, false);
    assert.equal(report.exit, exitOf(verdict));
    assert.throws(() => report.require(), (error) => {
      assert.ok(error instanceof VerdictError && error instanceof ThreadSealError && error.name === "VerdictError");
      assert.deepEqual(error.report, report.results[0]);
      assert.match(error.message, new RegExp(`is ${verdict}.*hint: `));
      return true;
    });
    await assert.rejects(async () => {
      for await (const event of verifiedEvents(bytes, options)) assert.fail(`${event.line} was given`);
    }, VerdictError);
  }
});

// T-JS-02
test("a head that is asked for must be there", async () => {
  const { head } = (await verify(valid, { trust: KEY })).results[0];
  assert.ok((await verify(valid, { trust: KEY, expectHead: head, exactHead: true })).verified);
  const later = head.replace(/:(\d+):/, (_, seq) => `:${Number(seq) + 1}:`);
  assert.equal((await verify(valid, { trust: KEY, expectHead: later })).verified, false);
  await assert.rejects(verify(valid, { exactHead: true }), InputError);
});

// T-JS-01
test("events are those of the sealed lines, and none after the last good seal", async () => {
  const events = [];
  for await (const event of verifiedEvents(valid, { trust: KEY })) events.push(event);
  const lines = valid.toString().trimEnd().split("\n");
  assert.deepEqual(events.map(({ text }) => text), lines);
  assert.deepEqual(events.map(({ line }) => line), lines.map((_, at) => at + 1));
  assert.ok(events.every(({ value, text, bytes: [from, to] }) => valid.subarray(from, to).toString() === text && value.event_type));
  const grown = read("event_appended.jsonl");
  await assert.rejects(verifiedEvents(grown, { trust: KEY }).next(), VerdictError);
  const report = await verify(grown, { trust: KEY });
  const accepted = [];
  for await (const event of verifiedEvents(grown, { trust: KEY, accept: ["unsigned_tail"] })) accepted.push(event);
  assert.equal(accepted.length, report.results[0].trusted_until.line);
  assert.ok(accepted.length < grown.toString().trimEnd().split("\n").length);
});

// T-JS-03
test("bytes that are changed after the verdict change no event", async () => {
  const shared = Buffer.from(valid);
  const events = verifiedEvents(shared, { trust: KEY });
  const first = await events.next();
  shared.fill(0x20);
  assert.equal(first.value.text, valid.toString().split("\n")[0]);
  const rest = [];
  for await (const event of events) rest.push(event.text);
  assert.deepEqual(rest, valid.toString().trimEnd().split("\n").slice(1));
});

// T-JS-04
test("a turn is proved, and the proof is checked without the record", async () => {
  const session = await openSession(valid, { trust: KEY });
  const { turn, text } = session.rows().find((row) => row.turn > 0);
  assert.equal(session.report.verified, true);
  assert.equal(session.summary.kind, "transcript");
  assert.equal(session.turn(turn).turn, turn);
  assert.ok(session.search(text.split(" ")[0]).hits.some((hit) => hit.turn === turn));
  session.close();
  const proof = await prove(valid, turn, { trust: KEY });
  const checked = await checkProof(proof, { trust: KEY });
  assert.deepEqual([checked.schema, checked.turn, checked.result.verdict], ["threadseal.check-proof/1", turn, "verified"]);
  const here = { cwd: folder(), home: "home" };
  fs.writeFileSync(path.join(here.cwd, "key.pem"), (await import("node:crypto")).createPublicKey({
    key: { kty: "OKP", crv: "Ed25519", x: Buffer.from(KEY, "hex").toString("base64url") }, format: "jwk",
  }).export({ type: "spki", format: "pem" }));
  const forged = Buffer.from(proof);
  forged[forged.indexOf("cognition_in") + 30] ^= 1;
  for (const [bytes, options, trust, exit] of [
    [proof, { trust: KEY }, ["--trust", "key.pem"], 0], [proof, {}, [], 3], [forged, { trust: KEY }, ["--trust", "key.pem"], 1],
  ]) {
    fs.writeFileSync(path.join(here.cwd, "proof"), bytes);
    const expected = json(here, ["check-proof", "proof", ...trust]);
    const answer = await checkProof(bytes, options);
    // The name of a key is that of its file.
    for (const signer of [...answer.result.signers, ...expected.result.signers]) delete signer.name;
    assert.equal(answer.exit, exit);
    assert.deepEqual({ ...answer, result: { ...answer.result, trust: null } }, { ...expected, result: { ...expected.result, trust: null } });
  }
});

test("mistakes of a caller are errors, and name the next step", async () => {
  for (const call of [
    () => verify("text"), () => verify(valid, { trust: "no key" }), () => verify(valid, { kind: "nothing" }),
    () => verify(valid, { now: -1 }), () => checkProof(valid, { trust: KEY }), () => prove(valid, 4_000_000, { trust: KEY }), () => verifyFile(native), () => verifyFile("/nowhere/at/all"),
  ]) {
    await assert.rejects(call, InputError);
  }
  await assert.rejects(verify(() => { throw new Error("disk"); }), /disk/);
  assert.match(await version(), /^\d+\.\d+\.\d+$/);
});

// T-JS-05
test("the second verifier of the package has the same verdicts", async () => {
  const { NativeVerifier } = await import("threadseal/verifier/native");
  const { parseHex } = await import("threadseal/verifier/bytes");
  const trust = { entries: [{ name: "testkit", key: parseHex(KEY, 32), usages: ["native"] }], pins: [], now: Date.now() / 1000 };
  let same = 0;
  for (const name of fs.readdirSync(native).filter((file) => /^[a-z_]+\.jsonl$/.test(file))) {
    const bytes = read(name);
    const report = await verify(bytes, { trust: KEY, kind: "native", bodies: "unread" });
    const second = new NativeVerifier({ trust, bodies: "unread" });
    await second.push(bytes);
    assert.equal((await second.finish()).verdict, report.verdict, name);
    same += 1;
  }
  assert.ok(same > 20, `${same} records`);
});

// T-JS-06
test("the record to try is the one that its page publishes, by the command and both verifiers", async () => {
  const { NativeVerifier } = await import("threadseal/verifier/native");
  const { checkTurnProof } = await import("threadseal/verifier/turn-proof");
  const { parseHex } = await import("threadseal/verifier/bytes");
  const demo = path.join(root, "docs/demo");
  const [page, record, proof] = ["README.md", "record.jsonl", "turn-2.turn-proof"].map((name) => fs.readFileSync(path.join(demo, name)));
  const [, head, key] = /^head: (\S+)\nkey: {2}(\S+)$/m.exec(page.toString());
  const entry = { name: "author", key: parseHex(key, 32), usages: ["native"] };
  const trust = { entries: [entry], pins: [], now: Date.now() / 1000 };
  const here = { cwd: folder(), home: "home" };
  fs.copyFileSync(path.join(demo, "author.id"), path.join(here.cwd, "author.id"));

  /** The verdicts of the command, of its core as WebAssembly, and of the second verifier. */
  const verdicts = async (bytes, proved) => {
    fs.writeFileSync(path.join(here.cwd, "record.jsonl"), bytes);
    fs.writeFileSync(path.join(here.cwd, "proof"), proved);
    const second = new NativeVerifier({ trust, bodies: "unread" });
    await second.push(bytes);
    const id = { name: "author.id", bytes: fs.readFileSync(path.join(demo, "author.id")) };
    return [
      json(here, ["verify", "record.jsonl", "--id", "author.id", "--expect-head", head]).results[0].verdict,
      (await verify(bytes, { trust: id, expectHead: head })).results[0].verdict,
      (await second.finish()).verdict,
      json(here, ["check-proof", "proof", "--id", "author.id"]).result.verdict,
      (await checkProof(proved, { trust: id })).result.verdict,
      (await checkTurnProof(proved, { trust })).verdict,
    ];
  };
  assert.deepEqual([...new Set(await verdicts(record, proof))], ["verified"]);
  const changed = (bytes) => Buffer.from(bytes.toString().replace("paid 10 euro", "paid 90 euro"));
  assert.deepEqual([...new Set(await verdicts(changed(record), changed(proof)))], ["tampered"]);
  const lines = record.toString().split("\n");
  const cut = Buffer.from(`${lines.slice(0, 7).join("\n")}\n`);
  assert.deepEqual((await verdicts(cut, proof)).slice(0, 2), ["truncated", "truncated"]);
});
