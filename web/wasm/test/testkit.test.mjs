// Every vector of the testkit that has a verdict: the same verdict, codes and place as listed, held and
// streamed, whatever the chunks.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { test } from "node:test";
import { testkit, verify, wasm } from "./module.mjs";

const list = "import sys,json; sys.path.insert(0, sys.argv[1]); import lists; print(json.dumps(lists.all_lists()))";
const dumped = execFileSync("python3", ["-B", "-c", list, testkit], { maxBuffer: 1 << 28 });
const vectors = JSON.parse(dumped).filter((vector) => "verdict" in vector.expected);

const ROLES = {
  native: ["record", "native"],
  rye: ["record", "rye"],
  observed: ["log", "log"],
  scroll: ["scroll", "scroll"],
  ledger: ["ledger", "ledger"],
  document: ["document", "document"],
};
const BESIDE = { bodies: "bodies", seals: "seal", seal: "seal", head: "head" };
const WAYS = [
  { sizes: [1 << 20] },
  { sizes: [1], held: 0 },
  { sizes: [97, 1, 4096, 613], held: 0 },
];
/** Larger files are not pushed byte by byte. */
const MAX_SINGLE_BYTES = 2000;

function bytesOf(file) {
  return file.path === undefined ? Buffer.from(file.base64, "base64") : fs.readFileSync(file.path);
}

function questionOf(asked) {
  const question = new wasm.Question(asked.name || "file", asked.now * 1000);
  for (const { key, usage } of asked.trust) question.trustFor(usage, key);
  for (const pin of asked.pins ?? []) question.pin("", Buffer.from(pin));
  if (asked.head) question.expectHead(asked.head, asked.exact ?? false);
  if (asked.thread && asked.kind === "ledger") question.run(asked.thread);
  else if (asked.thread) question.thread(asked.thread);
  if (asked.length !== undefined) question.length(asked.kind, asked.length);
  if (asked.oldest) question.oldestTurn(asked.oldest);
  if (asked.strict_digits) question.strictDigits();
  if (asked.profile) question.profile(asked.profile);
  if (asked.item) question.item(asked.item);
  for (const [role, file] of Object.entries(asked.files)) {
    if (role in BESIDE) question[BESIDE[role]](bytesOf(file));
    if (role === "policy") question.policy(bytesOf(file));
  }
  return question;
}

function answerOf(report) {
  const codes = [...new Set(report.findings.map((finding) => finding.code))].sort();
  return { verdict: report.verdict, codes, trusted_until: report.trusted_until };
}

function answers(asked) {
  const question = questionOf(asked);
  if (asked.kind.endsWith("_proof")) {
    try {
      return [answerOf(JSON.parse(wasm.checkProof(question, bytesOf(asked.files.proof))).result)];
    } catch (error) {
      // The kit has a verdict of every file that is given as a proof. Without its first line none is one here.
      if (!error.message.includes(": not a proof of a turn")) throw error;
      return [{ verdict: "malformed", codes: ["proof_malformed"], trusted_until: null }];
    }
  }
  const [role, kind] = ROLES[asked.kind];
  question.kind(kind);
  const bytes = bytesOf(asked.files[role]);
  const ways = bytes.length > MAX_SINGLE_BYTES ? WAYS.filter((way) => way.sizes[0] > 1) : WAYS;
  return ways.map((way) => {
    const { results, errors } = verify(question, bytes, way);
    assert.deepEqual(errors, []);
    // A document has a report of its own signature beside that of the seal, which is first.
    if (asked.files.seal === undefined) assert.equal(results.length, 1, "one report");
    return answerOf(results[0]);
  });
}

test("every vector of the testkit has its verdict, codes and place", () => {
  assert.ok(vectors.length > 2000, `${vectors.length} vectors`);
  const table = new Map();
  const wrong = [];
  for (const { name, question, expected, has } of vectors) {
    const row = table.get(question.kind) ?? { vectors: 0, "as listed": 0 };
    table.set(question.kind, row);
    row.vectors += 1;
    try {
      for (const answer of answers(question)) {
        for (const [member, value] of Object.entries(expected)) assert.deepEqual(answer[member], value, member);
        if (has) assert.ok(answer.codes.includes(has), `${answer.codes} has no ${has}`);
      }
      row["as listed"] += 1;
    } catch (error) {
      wrong.push(`${name}: ${error.message}`);
    }
  }
  console.table(Object.fromEntries(table));
  assert.deepEqual(wrong, []);
});
