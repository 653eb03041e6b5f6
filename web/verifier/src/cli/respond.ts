// Answering one question of the protocol of answer.ts: reading it, and writing the answer.

import { createReadStream } from "node:fs";
import { parseBase64, parseHex } from "../bytes.js";
import { isPublicKey } from "../ed25519.js";
import { type Report } from "../report.js";
import { type TrustEntry, USAGES, type Usage } from "../trust.js";
import { type Question, Unsupported } from "./question.js";
import type { BundledReport } from "../bundle.js";
import { KINDS, STREAMED } from "./kinds.js";
import { bundle } from "./kinds-formats.js";
import { SHORT_KINDS } from "./kinds-tlog.js";

const READ_BYTES = 1 << 20;

type FileOf = { readonly bytes: Uint8Array } | { readonly path: string };

/** Answers one question, given as its line. */
export async function answer(line: string): Promise<string> {
  let id: unknown = null;
  try {
    const asked = asObject(JSON.parse(line));
    id = asked["id"] ?? null;
    const kind = asText(asked["kind"]) ?? "";
    const short = SHORT_KINDS[kind];
    if (short !== undefined) return JSON.stringify({ id, ...(await short(await questionOf(kind, asked))) });
    if (kind === "bundle") return answerOfBundle(id, await bundle(await questionOf(kind, asked)));
    const run = KINDS[kind];
    if (run === undefined) throw new Unsupported(`the kind ${JSON.stringify(kind)}`);
    return answerOf(id, await run(await questionOf(kind, asked)));
  } catch (error) {
    if (error instanceof Unsupported) return JSON.stringify({ id, unsupported: error.message });
    throw error;
  }
}

function answerOf(id: unknown, report: Report): string {
  return `${JSON.stringify({ id }).slice(0, -1)},${membersOf(report)}}`;
}

function answerOfBundle(id: unknown, reports: readonly BundledReport[]): string {
  const each = reports.map(({ run, report }) => `{"run":${JSON.stringify(run)},${membersOf(report)}}`);
  return `${JSON.stringify({ id }).slice(0, -1)},"reports":[${each.join(",")}]}`;
}

/** The members of an answer, with every digit of `turn`. */
function membersOf(report: Report): string {
  const until = report.trusted_until;
  const turn = until === null || until.turn === null ? "null" : until.turn.toString();
  const place = until === null ? "null" : `{"line":${until.line},"byte":${until.byte},"turn":${turn}}`;
  return `"verdict":"${report.verdict}","codes":${JSON.stringify(report.codes())},"trusted_until":${place}`;
}

async function questionOf(kind: string, asked: Readonly<Record<string, unknown>>): Promise<Question> {
  const files = new Map<string, FileOf>();
  for (const [role, one] of Object.entries(asObject(asked["files"]))) files.set(role, fileOf(one));
  const whole: Record<string, Uint8Array> = {};
  if (!STREAMED.has(kind)) for (const [role, file] of files) whole[role] = await readWhole(partsOf(file));
  const pins = asked["pins"] === undefined ? [] : asList(asked["pins"]).map(pinOf);
  const now = asked["now"];
  return {
    kind,
    files: whole,
    open: (role) => {
      const file = files.get(role);
      return file === undefined ? null : partsOf(file);
    },
    name: asText(asked["name"]),
    trust: {
      entries: asked["trust"] === undefined ? [] : entriesOf(asList(asked["trust"])),
      pins,
      now: typeof now === "number" ? now : Date.now() / 1000,
    },
    thread: asText(asked["thread"]),
    head: asText(asked["head"]),
    exact: asked["exact"] === true,
    length: numberOf(asked["length"]),
    oldest: nanoseconds(asText(asked["oldest"])),
    strictDigits: asked["strict_digits"] === true,
    profile: asText(asked["profile"]),
    item: asText(asked["item"]),
    keys: asked["keys"] === undefined ? [] : asList(asked["keys"]).map((key) => asText(key) ?? ""),
  };
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function nanoseconds(text: string | null): bigint | null {
  if (text === null) return null;
  if (!/^[0-9]{1,20}$/.test(text)) throw new Unsupported("an oldest moment that is none");
  return BigInt(text);
}

function fileOf(value: unknown): FileOf {
  const one = asObject(value);
  const path = asText(one["path"]);
  if (path !== null) return { path };
  const bytes = parseBase64(asText(one["base64"]) ?? "");
  if (bytes === null || typeof one["base64"] !== "string") throw new Unsupported("a file without bytes");
  return { bytes };
}

async function* partsOf(file: FileOf): AsyncGenerator<Uint8Array> {
  if ("bytes" in file) {
    yield file.bytes;
    return;
  }
  for await (const part of createReadStream(file.path, { highWaterMark: READ_BYTES })) {
    yield new Uint8Array(part.buffer, part.byteOffset, part.length);
  }
}

async function readWhole(parts: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  let length = 0;
  for await (const part of parts) {
    all.push(part);
    length += part.length;
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of all) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Entries of one key are one by one in the question; each has one usage. */
function entriesOf(list: readonly unknown[]): TrustEntry[] {
  return list.map((value, i) => {
    const one = asObject(value);
    const key = parseHex(asText(one["key"]) ?? "", 32);
    const usage = asText(one["usage"]);
    if (key === null || !isPublicKey(key)) throw new Unsupported("a trusted key that is none");
    if (!isUsage(usage)) throw new Unsupported("a usage that is none");
    return { name: `key ${i + 1}`, key, usages: [usage] };
  });
}

function isUsage(text: string | null): text is Usage {
  return USAGES.some((usage) => usage === text);
}

function pinOf(value: unknown): Uint8Array {
  const pin = parseHex(asText(value) ?? "", 32);
  if (pin === null) throw new Unsupported("a pin that is none");
  return pin;
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Unsupported("a question without its objects");
  return value as Readonly<Record<string, unknown>>;
}

function asList(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Unsupported("a question without its lists");
  return value as readonly unknown[];
}

function asText(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
