// The frozen answers of `threadseal verify --json` to files alone: the whole report is the same here.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { NOW, root, testkit, verify, wasm } from "./module.mjs";

const TRUST = `version = 1

[[key]]
name = "testkit"
key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
usage = ["native", "scroll"]
`;
const snapshots = path.join(root, "crates/threadseal-cli/tests/snapshots/verify");
const KITS = [
  "agmi", "canon", "documents-native", "documents-rye", "keys", "ledger", "lineage", "scroll", "tlog",
  "transcripts-native", "transcripts-rye",
];
const ONE_VALUE = {
  "--profile": (question, value) => question.profile(value),
  "--thread": (question, value) => question.thread(value),
  "--expect-head": (question, value) => question.expectHead(value, false),
  "--format": (question, value) => question.kind(value),
};

/** The runs of a snapshot that are about one file: its arguments and its answer. */
function runsOf(file) {
  const runs = [];
  for (const part of fs.readFileSync(file, "utf8").split(/^== /m).slice(1)) {
    const [shown, , ...lines] = part.split("\n");
    const words = shown.split(" ");
    const json = lines.join("\n");
    if (words[0] !== "verify" || words.includes("FILES") || json.includes('"as alone: ')) continue;
    runs.push({ shown, words: words.slice(2), json });
  }
  return runs;
}

function givenFile(folder, name) {
  const place = name.replace(/^<trust>\//, "");
  if (place === "trust.toml") return Buffer.from(TRUST);
  const found = [path.join(folder, place), path.join(testkit, place)].find((file) => fs.existsSync(file));
  return found && fs.statSync(found).isFile() ? fs.readFileSync(found) : undefined;
}

/** The question and the file of a run; nothing where it is about a folder, or about another file's companion. */
function asked(folder, words) {
  const name = words.at(-1);
  const file = path.join(folder, name);
  if (!fs.existsSync(file) || !fs.statSync(file).isFile()) return undefined;
  const isBeside = /\.(seal|head|index)$/.test(name) && fs.existsSync(file.replace(/\.[a-z]+$/, ""));
  if (isBeside) return undefined;
  const question = new wasm.Question(name, NOW);
  for (let at = 0; at < words.length - 1; at += 1) {
    const [flag, value] = words.slice(at, at + 2);
    if (flag === "--trust" || flag === "--key") {
      const bytes = givenFile(folder, value);
      if (bytes === undefined && flag === "--trust") return undefined;
      if (flag === "--trust") question.trust(value, bytes);
      else question.pin("", bytes ?? Buffer.from(value));
      at += 1;
    } else if (flag === "--exact-head") {
      question.expectHead(words[words.indexOf("--expect-head") + 1], true);
    } else if (flag === "--strict-digits") {
      question.strictDigits();
    } else if (flag in ONE_VALUE) {
      if (flag !== "--expect-head" || !words.includes("--exact-head")) ONE_VALUE[flag](question, value);
      at += 1;
    } else {
      return undefined;
    }
  }
  for (const [ending, set] of [[".seal", "seal"], [".head", "head"]]) {
    if (fs.existsSync(file + ending)) question[set](fs.readFileSync(file + ending));
  }
  const bodies = file.replace(/\.jsonl$/, ".bodies");
  if (bodies !== file && fs.existsSync(bodies)) question.bodies(fs.readFileSync(bodies));
  return { question, bytes: fs.readFileSync(file) };
}

/** What a page cannot have: SQLite. */
const isOfHost = (json) => json.includes("without SQLite") || json.includes("cannot open the database");

function compare(folder, snapshot) {
  const counts = { reports: 0, "the same": 0, "of folders": 0 };
  const wrong = [];
  for (const { shown, words, json } of runsOf(path.join(snapshots, `${snapshot}.txt`))) {
    const found = asked(folder, words);
    if (found === undefined || isOfHost(json)) {
      counts["of folders"] += 1;
      continue;
    }
    counts.reports += 1;
    const expected = JSON.parse(json);
    try {
      for (const way of [{ sizes: [1 << 20] }, { sizes: [1021], held: 64 }]) {
        const { passes, ...answer } = verify(found.question, found.bytes, way);
        assert.deepEqual(answer, expected);
      }
      counts["the same"] += 1;
    } catch (error) {
      wrong.push(`${shown}: ${error.message}`);
    }
  }
  return { counts, wrong };
}

test("a file alone has the report that the command prints", () => {
  const table = {};
  const wrong = [];
  const all = KITS.map((kit) => [kit, testkit]);
  const shared = process.env.THREADSEAL_SHARED;
  if (shared && fs.existsSync(path.join(shared, "vectors"))) {
    all.push(["shared-igor", path.join(shared, "vectors/igor")]);
    all.push(["shared-ledger", path.join(shared, "vectors/ledger")]);
  }
  for (const [kit, folder] of all) {
    const found = compare(folder, kit);
    table[kit] = found.counts;
    wrong.push(...found.wrong);
  }
  console.table(table);
  assert.equal(wrong.length, 0, `${wrong.length} differ\n${wrong.slice(0, 20).join("\n")}`);
});
