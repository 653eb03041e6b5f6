// The worked examples of the text, read out of spec/*.md and judged.

import { deepEqual, equal, ok } from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { base64, hex, parseBase64, parseHex, utf8 } from "../dist/bytes.js";
import { jcs, ledger, ledgerLine, readPython, readStrict, rye, ryeLine } from "../dist/canon.js";
import { encodeCbor } from "../dist/cbor.js";
import { answer } from "../dist/cli/respond.js";
import { keyId, verify } from "../dist/ed25519.js";
import { leafHash, rootOf } from "../dist/merkle.js";
import { parseVkey, verifyNote } from "../dist/note.js";
import { sha256, tagged } from "../dist/sha256.js";
import { keyOf, Maker } from "./maker.js";
import { TESTKIT, readText } from "./vectors.js";

const SPEC = `${TESTKIT}../spec/`;
const NOW = 1_800_000_000;
const NATIVE = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
const SECOND = "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394";
const OBSERVED = "ed4928c628d1c2c6eae90338905995612959273a5c63f93636c14614ac8737d1";
const SKIP = existsSync(`${SPEC}transcript.md`) ? false : `${SPEC} is not there`;

function specTest(name: string, run: () => void | Promise<void>): void {
  test(`spec/${name}`, { skip: SKIP }, run);
}

function text(spec: string): string {
  return readFileSync(SPEC + spec, "utf8");
}

/** The block after `<!-- example: NAME -->`. */
function example(spec: string, name: string): string {
  const rest = text(spec).split(`<!-- example: ${name} -->`)[1]!;
  return rest.split("```")[1]!.slice(1);
}

/** The value behind a word at the start of a line of an example. */
function valueOf(block: string, word: string): string {
  const line = block.split("\n").find((one) => one.startsWith(`${word} `));
  ok(line, word);
  return line.slice(word.length).trim();
}

interface Answer {
  readonly verdict: string;
  readonly codes: readonly string[];
  readonly trusted_until: { readonly line: number; readonly byte: number } | null;
}

type Files = Readonly<Record<string, string>>;

async function ask(kind: string, files: Files, usage: string, key: string, more: object = {}): Promise<Answer> {
  const bytes = Object.fromEntries(Object.entries(files).map(([role, one]) => [role, { base64: base64(utf8(one)) }]));
  const question = { id: 0, kind, files: bytes, trust: [{ key, usage }], now: NOW, ...more };
  return JSON.parse(await answer(JSON.stringify(question))) as Answer;
}

function is(got: Answer, verdict: string, ...codes: string[]): void {
  equal(`${got.verdict} ${got.codes.join()}`, `${verdict} ${codes.join()}`);
}

// ------------------------------------------------------------------------------- tables of vectors

interface Index {
  readonly usage: string;
  readonly trust: readonly string[];
  readonly vectors: readonly {
    readonly name: string;
    readonly kind: string;
    readonly files: readonly (readonly [string, string])[];
    readonly options?: { readonly trust?: readonly string[] };
  }[];
}

for (const spec of ["transcript.md", "proofs.md"]) {
  specTest(`${spec}: worked examples`, async () => {
    const tables = text(spec).split("<!-- examples: ").slice(1);
    ok(tables.length > 0);
    for (const table of tables) {
      const folder = table.slice("testkit/".length, table.indexOf(" -->"));
      const { vectors, trust, usage } = JSON.parse(readText(`${folder}/index.json`)) as Index;
      for (const [, name, , verdict, codes] of rowsOf(table)) {
        const one = vectors.find((vector) => `\`${vector.name}\`` === name)!;
        const files = Object.fromEntries(one.files.map(([role, file]) => [role, { path: `${TESTKIT}${folder}/${file}` }]));
        const { trust: trusted = trust, ...options } = one.options ?? {};
        const keys = trusted.map((key) => ({ key, usage }));
        const question = { id: 0, kind: one.kind, files, now: NOW, ...options, trust: keys };
        const got = JSON.parse(await answer(JSON.stringify(question))) as Answer;
        equal(`\`${got.verdict}\` ${got.codes.map((code) => `\`${code}\``).join(", ")}`, `${verdict} ${codes}`, name);
      }
    }
  });
}

/** The cells of the rows of the table that begins in the second line. */
function rowsOf(table: string): string[][] {
  const rows = [];
  for (const line of table.split("\n").slice(3)) {
    if (!line.startsWith("|")) break;
    rows.push(line.split("|").map((cell) => cell.trim()));
  }
  return rows;
}

// -------------------------------------------------------------------------------------- records

specTest("transcript.md §7: the native record, its head and its note", async () => {
  const record = example("transcript.md", "native");
  const head = example("transcript.md", "native-head").trim();
  const got = await ask("native", { record }, "native", NATIVE, { thread: "demo/1", head, exact: true });
  is(got, "verified");
  deepEqual([got.trusted_until?.line, got.trusted_until?.byte], [5, utf8(record).length]);
  is(await ask("native", { record: record.replace("caf", "Caf") }, "native", NATIVE), "tampered", "content_changed");
  const note = example("transcript.md", "native-note");
  const name = note.split("\n")[0]!;
  const key = parseHex(NATIVE, 32)!;
  const verified = await verifyNote(utf8(note), [{ name, key }]);
  equal(verified.answer, "verified");
});

specTest("transcript.md §5: the record of the example of next_key", async () => {
  const [a, first, second, rye] = [await keyOf(1), await keyOf(3), await keyOf(4), await keyOf(2)];
  const names = new Map([["A", a], ["1", first], ["2", second]]);
  const table = text("transcript.md").split("<!-- example: next-key -->")[1]!;
  const maker = await new Maker({ authority: a, key: first, rye }).begin();
  let lines = 2;
  let judged = 0;
  for (const [, place, by, ext] of rowsOf(table).slice(1)) {
    const [at] = place!.split(", ");
    const final = place!.includes("final");
    const last = final ? place!.includes("thread_resumed") ? "thread_resumed" : "thread_completed" : "cognition_out";
    for (; lines < Number(at) - 2; lines++) maker.event("cognition_in");
    maker.event(last);
    lines += 2;
    await maker.seal(names.get(by!)!, { final, ext: ext!.slice(1, -1).replace("<2>", second.hex) });
    judged += 1;
  }
  equal(judged, 4);
  const record = new TextDecoder().decode(maker.bytes());
  is(await ask("native", { record }, "native", NATIVE), "verified");
});

specTest("transcript.md §9: the observed logs", async () => {
  const log = example("transcript.md", "observed-log");
  for (const name of ["observed-seals-1", "observed-seals"]) {
    const seals = example("transcript.md", name);
    const got = await ask("observed", { log, seals }, "observed", OBSERVED);
    equal(got.verdict, "open", name);
    deepEqual([got.trusted_until?.line, got.trusted_until?.byte], [2, 85]);
    is(await ask("observed", { log: log.replace("two", "ten"), seals }, "observed", OBSERVED), "tampered", "line_changed");
  }
  const rest = example("transcript.md", "observed-seals").split("\n").slice(2).join("\n");
  const seals = example("transcript.md", "redacted-front") + rest;
  const redacted = await ask("observed", { log: example("transcript.md", "redacted-log"), seals }, "observed", OBSERVED);
  equal(redacted.verdict, "open");
  ok(redacted.codes.includes("redacted"));
});

specTest("transcript.md §10: the detached body", async () => {
  const [commitment, ...lines] = example("transcript.md", "detached-body").split("\n");
  const bodies = lines.join("\n");
  const key = await keyOf(1);
  const maker = await new Maker({ authority: key, key, rye: await keyOf(2), detached: true }).begin();
  maker.event("cognition_in", `{"text":${commitment}}`).event("thread_completed");
  await maker.seal(key, { final: true });
  const record = new TextDecoder().decode(maker.bytes());
  is(await ask("native", { record, bodies }, "native", NATIVE), "verified");
  is(await ask("native", { record, bodies: bodies.replace("caf", "Caf") }, "native", NATIVE), "tampered", "body_changed");
});

specTest("ledger.md §3: the chain", async () => {
  const block = example("ledger.md", "chain");
  const ledgerText = `${valueOf(block, "line0")}\n${valueOf(block, "line1")}\n`;
  for (const n of [0, 1]) equal(hex(sha256(utf8(valueOf(block, `covered${n}`)))), valueOf(block, `hash${n}`));
  const run = hex(tagged("threadseal/1 ledger run", [utf8("run-1")]));
  const head = `${run}:1:2:${valueOf(block, "hash1")}`;
  is(await ask("ledger", { ledger: ledgerText }, "native", NATIVE, { thread: "run-1", head, exact: true }), "verified");
  const changed = ledgerText.replace('"là"', '"ici"');
  is(await ask("ledger", { ledger: changed }, "native", NATIVE), "tampered", "hash_wrong", "unsigned");
});

specTest("documents.md: the sealed text, and Rye's signatures", async () => {
  const native = example("documents.md", "native-text");
  const before = "#!/bin/sh\necho ok\n";
  const document = `${before}${valueOf(native, "last line")}${valueOf(native, "signature")}\n`;
  const head = valueOf(native, "head");
  is(await ask("document", { document }, "native", NATIVE, { name: "x.sh", head }), "verified");
  const signed = `#!/bin/sh\n${valueOf(example("documents.md", "rye-text"), "second line")}\necho ok\n`;
  is(await ask("document", { document: signed }, "rye", SECOND, { name: "x.sh" }), "partial", "uncovered");
  const json = example("documents.md", "rye-json");
  is(await ask("document", { document: valueOf(json, "signed") }, "rye", SECOND, { name: "x.json" }), "verified");
  is(await ask("document", { document: valueOf(json, "sealed") }, "native", NATIVE, { name: "x.json", trust: [
    { key: NATIVE, usage: "native" }, { key: SECOND, usage: "rye" },
  ] }), "verified");
});

// -------------------------------------------------------------------------------- keys and texts

specTest("keys-and-trust.md: keys, messages, trees, the note", async () => {
  const key = example("keys-and-trust.md", "public-key");
  equal(hex(keyId(parseHex(valueOf(key, "hex"), 32)!)), valueOf(key, "key id"));
  const messages = example("keys-and-trust.md", "messages");
  equal(hex(tagged("example", ["a", "bc"])), valueOf(messages, 'tagged("example", ["a", "bc"])'));
  const tree = example("keys-and-trust.md", "merkle").trimEnd().split("\n");
  for (const row of tree) {
    const leaves = [...row.matchAll(/"([a-d]?)"/g)].map((match) => match[1]!).filter((leaf) => leaf !== "");
    equal(hex(rootOf(leaves.map((leaf) => leafHash(utf8(leaf))))), row.trim().split(" ").pop());
  }
  const [first, ...note] = example("keys-and-trust.md", "note").split("\n");
  const vkey = parseVkey(first!.split(/ +/)[1]!)!;
  equal((await verifyNote(utf8(note.join("\n")), [vkey])).answer, "verified");
});

specTest("scroll.md §4, §6: a turn, and the same in CBOR", async () => {
  const block = example("scroll.md", "turn");
  const turn = readStrict(utf8(valueOf(block, "turn")));
  ok(turn.ok);
  const canonical = jcs(turn.value)!;
  equal(new TextDecoder().decode(canonical), valueOf(block, "canonical"));
  equal(`sha256:${hex(sha256(canonical))}`, valueOf(block, "hash"));
  equal(await verify(parseHex(NATIVE, 32)!, canonical, parseBase64(valueOf(block, "sig"))!), true);
  const cbor = example("scroll.md", "cbor");
  const read = readStrict(utf8(valueOf(cbor, "turn")));
  ok(read.ok);
  const covered = encodeCbor(read.value)!;
  equal(hex(covered), valueOf(cbor, "covered"));
  equal(`sha256:${hex(sha256(covered))}`, valueOf(cbor, "hash"));
});

specTest("canon.md §7: a value in CBOR", () => {
  const block = text("canon.md").split("```cbor\n")[1]!.split("```")[0]!;
  const [value, bytes] = block.trimEnd().split("\n").map((line) => line.slice(line.indexOf(":") + 1).trim());
  const read = readStrict(utf8(value!));
  ok(read.ok);
  equal(hex(encodeCbor(read.value)!), bytes!.replaceAll(" ", ""));
});

specTest("canon.md: texts, and what is written of them", () => {
  let judged = 0;
  for (const block of text("canon.md").split("```canon\n").slice(1)) {
    const lines = block.slice(0, block.indexOf("```")).trimEnd().split("\n");
    const members = new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as const));
    const bytes = utf8(members.get("text")!);
    const strict = readStrict(bytes);
    const python = readPython(bytes);
    const stated = members.get("strict");
    if (stated !== undefined) equal(strict.ok, stated === "accepted", members.get("text")!);
    const writers = { jcs, rye, ledger, "ledger-line": ledgerLine, "rye-line": ryeLine };
    for (const [name, write] of Object.entries(writers)) {
      const expected = members.get(name);
      if (expected === undefined) continue;
      const value = name === "jcs" ? strict : python;
      ok(value.ok);
      const written = write(value.value);
      equal(written === null ? "refused" : hex(written), expected === "refused" ? expected : hex(shown(expected)), `${name}: ${members.get("text")!}`);
      judged += 1;
    }
  }
  ok(judged > 15);
});

/** `<..>` represents bytes in hex. */
function shown(result: string): Uint8Array {
  const parts = result.split(/<([0-9A-F ]+)>/);
  const all = parts.map((part, i) => (i % 2 === 0 ? utf8(part) : parseHex(part.replaceAll(" ", "").toLowerCase(), part.split(" ").length)!));
  return Uint8Array.from(all.flatMap((part) => [...part]));
}
