// Observed logs that the testkit has no vectors for: edits, tails, torn seal files (transcript.md §9).

import { equal } from "node:assert/strict";
import { test } from "node:test";
import { base64, concat, hex, utf8 } from "../dist/bytes.js";
import { nativeString } from "../dist/canon.js";
import { answer } from "../dist/cli/respond.js";
import { Frontier, leafHash } from "../dist/merkle.js";
import { noteKeyId } from "../dist/note.js";
import { Salts, parseSealHeader, saltedLeaf } from "../dist/observed-lines.js";
import { sha256, tagged } from "../dist/sha256.js";
import { keyOf } from "./maker.js";

const KEY = await keyOf(3);
const RECORD = new Uint8Array(32).fill(8);

/** Seals log lines as they are appended. */
class Sealer {
  readonly lines: string[] = [];
  private readonly header: string;
  private readonly salts: Salts | null;
  private readonly tree = new Frontier();
  private front: string;
  private tail = "";
  private seq = 0;
  head = "";

  constructor(private readonly format: 1 | 2) {
    const root = new Uint8Array(16).fill(4);
    const salted = hex(tagged("threadseal/2 observed salts", [RECORD, root]));
    this.header = `{"format":"threadseal-observed/${format}","kind":"observed","record":"${hex(RECORD)}","key":"${KEY.hex}"`
      + `${format === 2 ? `,"salted":"${salted}"` : ""}}`;
    const line = `{"salts":[[32,0,"${hex(root)}"]]}`;
    this.salts = format === 2 ? Salts.parse(utf8(line), parseSealHeader(utf8(this.header))!) : null;
    this.front = format === 2 ? `${this.header}\n${line}\n` : `${this.header}\n`;
  }

  get seals(): string {
    return this.front + this.tail;
  }

  /** Adds lines and their leaves, without a seal. */
  leaves(...lines: string[]): this {
    const hashes = lines.map((line, i) => {
      const plain = leafHash(utf8(line));
      return this.salts === null ? plain : saltedLeaf(this.salts.salt(this.lines.length + i)!, plain);
    });
    this.lines.push(...lines);
    for (const hash of hashes) this.tree.push(hash);
    this.tail += `{"leaves":"${base64(concat(...hashes))}"}\n`;
    return this;
  }

  log(): string {
    return this.lines.map((line) => `${line}\n`).join("");
  }

  async seal(final = false, size = utf8(this.log()).length): Promise<this> {
    const origin = `threadseal/observed/${this.format}/${hex(RECORD)}`;
    const sidecar = hex(sha256(utf8(`${this.header}\n${this.tail}`)));
    const lines = this.tree.size;
    const root = this.tree.root();
    const start = `{"seal":{"seq":${this.seq},"size":${size},"lines":${lines},"root":"${hex(root)}","sidecar":"${sidecar}",`
      + `"time":1771356405.001000,"final":${final},"note":"`;
    const digest = this.format === 1
      ? tagged("threadseal/1 observed line", [start])
      : tagged("threadseal/2 observed line", [this.header, start]);
    const text = `${origin}\n${lines}\n${base64(root)}\nline ${hex(digest)}\n`;
    const signature = concat(noteKeyId(origin, KEY.raw), await KEY.sign(utf8(text)));
    const line = `${start}${nativeString(`${text}\n\u2014 ${origin} ${base64(signature)}\n`).slice(1)}}}`;
    this.tail += `${line}\n`;
    this.head = `${hex(RECORD)}:${this.seq}:${size}:${hex(sha256(utf8(line)))}`;
    this.seq++;
    return this;
  }
}

async function ask(log: string, seals: string, more: Record<string, unknown> = {}): Promise<string> {
  const files = { log: { base64: base64(utf8(log)) }, seals: { base64: base64(utf8(seals)) } };
  const got = JSON.parse(await answer(JSON.stringify({
    id: 1, kind: "observed", files, trust: [{ key: KEY.hex, usage: "observed" }], now: 1_830_000_000, ...more,
  }))) as { verdict: string; codes: string[]; trusted_until: { line: number } | null };
  return [got.verdict, ...got.codes, got.trusted_until === null ? "-" : got.trusted_until.line].join(" ");
}

const LINES = ["one", "two", "three", "four", "five", "six"];

function swapped(lines: readonly string[], a: number, b: number): string[] {
  const copy = [...lines];
  [copy[a], copy[b]] = [copy[b]!, copy[a]!];
  return copy;
}

for (const format of [1, 2] as const) {
  const whole = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join("");

  test(`edits, format ${format}`, async () => {
    const one = await new Sealer(format).leaves(...LINES).seal(true);
    equal(await ask(one.log(), one.seals), "verified 6");
    equal(await ask(whole(LINES.map((line) => (line === "two" ? "2" : line))), one.seals), "tampered line_changed 1");
    equal(await ask(whole(LINES.filter((line) => line !== "two")), one.seals), "tampered line_deleted 1");
    equal(await ask(whole([...LINES.slice(0, 2), "x", ...LINES.slice(2)]), one.seals), "tampered line_inserted 2");
    equal(await ask(whole(swapped(LINES, 1, 4)), one.seals), "tampered line_moved 1");
    equal(await ask(whole(swapped(LINES, 4, 5)), one.seals), "tampered line_moved 4");
    equal(await ask(whole(LINES.slice(0, 5)), one.seals), "truncated lines_missing -");
    equal(await ask(whole([...LINES, "seven"]), one.seals), "unsigned_tail lines_after_final 6");
    equal(await ask(one.log().slice(0, -1), one.seals), "tampered size_differs -");
  });

  test(`lengths and tails, format ${format}`, async () => {
    const one = await new Sealer(format).leaves("{}", "[1]").seal(false, 6);
    equal(await ask("{}\n[1]", one.seals), "open end_unproved 2");
    equal(await ask("{}\n[1]\n", one.seals), "open end_unproved 2");
    equal(await ask("{}\n[1]\nx\n", one.seals), "unsigned_tail end_unproved unsigned_tail 2");
    equal(await ask("{}\n[1]\n", one.seals, { head: one.head }), "verified 2");
    equal(await ask("{}\n[1]\n", one.seals, { head: one.head.replace(":0:", ":1:") }), "truncated head_ahead -");
    const last = await new Sealer(format).leaves("{}").seal(true, 2);
    equal(await ask("{}", last.seals), "verified 1");
    equal(await ask("{}\n", last.seals), "verified 1");
  });

  test(`the seal file, format ${format}`, async () => {
    const one = await new Sealer(format).leaves("a").seal();
    const before = one.seals;
    one.leaves("b");
    equal(await ask("a\n", one.seals), "open end_unproved seal_file_torn 1");
    equal(await ask("a\n", `${before}{"se`), "open end_unproved seal_file_torn 1");
    equal(await ask("a\n", `${before}{"se\n`), "tampered seal_malformed -");
    await one.seal();
    equal(await ask("a\nb\n", one.seals), "open end_unproved 2");
    equal(await ask("a\nb\n", one.seals.replace('"time":1771356405.001000,"final":false,"note":"threadseal', '"time":1771356405.001001,"final":false,"note":"threadseal')), "tampered no_seal seal_malformed -");
    equal(await ask("a\nb\n", one.seals.slice(1)), "malformed seal_header_bad -");
    equal(await ask("", one.seals.split("\n").slice(0, format).map((line) => `${line}\n`).join("")), "unsigned no_seal -");
    const gap = one.seals.split("\n");
    gap.splice(format + 1, 1);
    equal(await ask("a\nb\n", gap.join("\n")), "tampered no_seal seal_order -");
  });
}
