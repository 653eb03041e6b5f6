// No changed byte makes the verdict of a vector better, unless the change is one that the rules allow:
// bytes that nothing covers.

import { ok } from "node:assert/strict";
import { existsSync } from "node:fs";
import { base64 } from "../dist/bytes.js";
import { answer } from "../dist/cli/respond.js";
import { type Verdict, isEvidence, rank } from "../dist/report.js";
import { TESTKIT, listTest, parseTables, readBytes, readText } from "./vectors.js";

const PLACES = 200;
const NOW = 1_830_000_000;
const FOLDER = "transcripts/native/";

async function verdictOf(kind: string, files: Record<string, Uint8Array>, key: string): Promise<Verdict> {
  const encoded = Object.fromEntries(Object.entries(files).map(([role, bytes]) => [role, { base64: base64(bytes) }]));
  const trust = [{ key, usage: kind }];
  return (JSON.parse(await answer(JSON.stringify({ id: 1, kind, files: encoded, trust, now: NOW }))) as { verdict: Verdict }).verdict;
}

/** Changes up to PLACES bytes of one file, one at a time. */
async function mutate(name: string, kind: string, files: Record<string, Uint8Array>, role: string, key: string): Promise<void> {
  const before = await verdictOf(kind, files, key);
  const file = files[role]!;
  const step = Math.max(1, Math.floor(file.length / PLACES));
  for (let at = 0; at < file.length; at += step) {
    const changed = file.slice();
    changed[at] = changed[at]! ^ (1 << (at % 7));
    const after = await verdictOf(kind, { ...files, [role]: changed }, key);
    // What is evidence, or a seal over an adopted tail, can become a tail that nothing covers.
    const good = after === "unsigned_tail" || (isEvidence(before) ? after !== "verified" : rank(after) <= rank(before));
    ok(good, `${name} ${role} byte ${at}: ${before} became ${after}`);
  }
}

listTest(`${FOLDER}expect.toml`, "mutations of native records and observed logs", async () => {
  const { top, list } = parseTables(readText(`${FOLDER}expect.toml`));
  for (const one of list) {
    const path = FOLDER + String(one["file"]);
    if (existsSync(`${TESTKIT}${path}.seal`)) {
      const files = { log: readBytes(path), seals: readBytes(`${path}.seal`) };
      const key = (one["flags"] as readonly string[])[1]!;
      await mutate(path, "observed", files, "log", key);
      await mutate(path, "observed", files, "seals", key);
    } else {
      await mutate(path, "native", { record: readBytes(path) }, "record", String(top["trusted_key"]));
    }
  }
});
