// The vectors of testkit/canon, and CBOR.

import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { hex, parseHex, utf8 } from "../dist/bytes.js";
import { type Reading, jcs, ledger, memberOf, readPython, readStrict, rye, ryeLine, textOf, without } from "../dist/canon.js";
import { decodeCbor } from "../dist/cbor.js";
import { sha256 } from "../dist/sha256.js";
import { listTest, testkit } from "./lists.js";

function json(path: string): unknown {
  return JSON.parse(new TextDecoder().decode(testkit(path)));
}

function textOfBytes(bytes: Uint8Array | null): string | null {
  return bytes === null ? null : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

function strictAnswer(reading: Reading): unknown {
  return reading.ok ? "accepted" : { refused: reading.refusal.kind, at: reading.refusal.at };
}

interface ReadingCase {
  why: string;
  text?: string;
  hex?: string;
  strict: unknown;
  python: string;
}

listTest("canon/reading.json", "readings", () => {
  const { cases } = json("canon/reading.json") as { cases: ReadingCase[] };
  for (const one of cases) {
    const bytes = one.hex === undefined ? utf8(one.text ?? "") : parseHex(one.hex, one.hex.length / 2);
    ok(bytes !== null);
    deepEqual(strictAnswer(readStrict(bytes)), one.strict, one.why);
    equal(readPython(bytes).ok ? "accepted" : "refused", one.python, one.why);
  }
});

interface WritingCase {
  text: string;
  jcs: string | null;
  rye: string;
  ledger: string | null;
  rye_line: string;
}

listTest("canon/writing.json", "writers", () => {
  const { cases } = json("canon/writing.json") as { cases: WritingCase[] };
  for (const one of cases) {
    const python = readPython(utf8(one.text));
    ok(python.ok, one.text);
    const strict = readStrict(utf8(one.text));
    equal(strict.ok ? textOfBytes(jcs(strict.value)) : null, one.jcs, one.text);
    equal(textOfBytes(rye(python.value)), one.rye, one.text);
    equal(textOfBytes(ledger(python.value)), one.ledger, one.text);
    equal(textOfBytes(ryeLine(python.value)), one.rye_line, one.text);
  }
});

listTest("canon/rye/index.json", "documents by Rye's own packages", () => {
  for (const one of json("canon/rye/index.json") as { file: string; hash_matches: boolean }[]) {
    const reading = readPython(testkit(`canon/rye/${one.file}`));
    ok(reading.ok && reading.value.kind === "object", one.file);
    const hash = (textOf(memberOf(reading.value, "_signature")) ?? "").split(":")[5];
    const found = hex(sha256(rye(without(reading.value, ["_signature"]))));
    equal(found === hash, one.hash_matches, one.file);
  }
});

test("CBOR that is not deterministic is refused", () => {
  const refused = ["1817", "1800", "fa3fc00000", "fb3ff8000000000000", "f93c00", "f97e00", "f97c00", "4100", "c000", "f7",
    "9fff", "a2616201616101", "a2616101616102", "a10101", "61ff", "0000", "1b0020000000000001", "3bffffffffffffffff" + "00"];
  for (const text of refused) equal(decodeCbor(parseHex(text, text.length / 2)!).ok, false, text);
  for (const text of ["1818", "f93e00", "3bffffffffffffffff", "a0", "80", "60", "1b0020000000000002"]) {
    equal(decodeCbor(parseHex(text, text.length / 2)!).ok, true, text);
  }
});
