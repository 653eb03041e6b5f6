// The engine in WebAssembly: the core of the command itself. Its module comes with the page, never from elsewhere.

import * as glue from "threadseal-wasm";
import type { Asked, Engine, ProofPlace, Prover, Report, Run } from "./core.js";

/** The part of the module's interface that the page uses; `threadseal_wasm.d.ts` is the whole. */
export interface Glue {
  readonly default: (module: { module_or_path: WebAssembly.Module }) => Promise<unknown>;
  readonly version: () => string;
  readonly Question: new (name: string, now: number) => Question;
  readonly Verifier: new (question: Question, held?: number) => Verifier;
  readonly Session: new (question: Question) => Session;
  readonly checkProof: (question: Question, bytes: Uint8Array) => string;
  readonly plainText: (name: string, bytes: Uint8Array) => string;
  readonly turnsOfLines: (bytes: Uint8Array) => Uint32Array;
}

interface Question {
  trust(name: string, bytes: Uint8Array): void;
  trustFor(usage: string, key: string): void;
  size(bytes: number): void;
  seal(bytes: Uint8Array): void;
  bodies(bytes: Uint8Array): void;
  withoutBodies(): void;
  expectHead(head: string, exact: boolean): void;
  free(): void;
}

interface Verifier {
  push(part: Uint8Array): void;
  finish(): string | undefined;
  free(): void;
}

interface Session {
  push(part: Uint8Array): void;
  open(): number;
  rows(from: number, count: number): string;
  prove(turn: number): Uint8Array;
  free(): void;
}

let module: WebAssembly.Module | null = null;
let ready: Promise<Glue | null> | null = null;

/** Gives the module or its bytes, once, before the first verification. */
export async function useModule(given: WebAssembly.Module | Uint8Array | null): Promise<void> {
  module = given instanceof Uint8Array ? await WebAssembly.compile(given as Uint8Array<ArrayBuffer>) : given;
}

function loaded(): Promise<Glue | null> {
  ready ??= (async () => {
    const built = glue as unknown as Glue & { readonly absent?: boolean };
    if (module === null || built.absent === true) return null;
    await built.default({ module_or_path: module });
    return built;
  })();
  return ready;
}

export const WEBASSEMBLY: Engine = { name: "WebAssembly", begin };

async function begin(asked: Asked): Promise<Run | null> {
  const built = await loaded();
  if (built === null) return null;
  const question = questionOf(built, asked);
  const verifier = new built.Verifier(question);
  let head: Uint8Array | null = null;
  const parts: Uint8Array[] = [];
  const isProof = (): boolean => head !== null && /^threadseal\/1 (proof|conflict|copy)/.test(new TextDecoder().decode(head.subarray(0, 64)));
  return {
    push: async (part) => {
      head ??= part.slice(0, 64);
      if (isProof()) parts.push(part.slice());
      else verifier.push(part);
    },
    finish: async () => {
      if (isProof()) return proofReport(built, question, parts);
      const output = verifier.finish();
      if (output === undefined) return null;
      const { results, errors } = JSON.parse(output) as { results: Report[]; errors: { message: string }[] };
      verifier.free();
      question.free();
      const worst = results[0];
      if (worst === undefined) throw new Error(errors[0]?.message ?? "no record was recognised");
      return worst;
    },
  };
}

function proofReport(built: Glue, question: Question, parts: readonly Uint8Array[]): Report {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  const output = JSON.parse(built.checkProof(question, bytes)) as { result: Report };
  return output.result;
}

function questionOf(built: Glue, asked: Asked): Question {
  const question = new built.Question(asked.name, Date.now());
  const encoder = new TextEncoder();
  if (asked.trust.store !== null) question.trust("trust.toml", encoder.encode(asked.trust.store));
  else for (const key of asked.trust.keys) question.trust(`${key.name}.toml`, encoder.encode(storeOf(key)));
  if (asked.seals !== null) question.seal(asked.seals);
  if (asked.bodies !== null) question.bodies(asked.bodies);
  else if (asked.bodiesUnread) question.withoutBodies();
  if (asked.head !== null) question.expectHead(asked.head, false);
  return question;
}

/** A trust store of one key, so that its name, uses and window go with it. */
function storeOf(key: Asked["trust"]["keys"][number]): string {
  const time = (seconds: number): string => new Date(seconds * 1000).toISOString().replace(/\.\d+Z$/, "Z");
  const lines = [
    "version = 1", "[[key]]", `name = ${JSON.stringify(key.name)}`, `key = "${key.public}"`,
    `usage = [${key.usages.map((usage) => JSON.stringify(usage)).join(", ")}]`,
  ];
  if (key.threads !== undefined) lines.push(`scope.threads = [${key.threads.map((one) => JSON.stringify(one)).join(", ")}]`);
  if (key.notBefore !== undefined) lines.push(`not_before = "${time(key.notBefore)}"`);
  if (key.notAfter !== undefined) lines.push(`not_after = "${time(key.notAfter)}"`);
  if (key.revoked !== undefined) {
    const next = key.revoked.next === undefined ? "" : `, next = "${key.revoked.next}"`;
    lines.push(`revoked = { at = "${time(key.revoked.at)}", reason = ${JSON.stringify(key.revoked.reason)}${next} }`);
  }
  return `${lines.join("\n")}\n`;
}

/** The plain text of logs (spec/page.md §4); null where the core is not built in. */
export async function plainTexts(logs: readonly { readonly log: string; readonly bytes: Uint8Array }[]): Promise<string | null> {
  const built = await loaded();
  return built === null ? null : logs.map((one) => built.plainText(one.log, one.bytes)).join("\n");
}

/** The turn of each line, from line 1, as the command counts them; null where the core is not built in. */
export async function turnsOfLines(bytes: Uint8Array): Promise<Uint32Array | null> {
  const built = await loaded();
  return built === null ? null : built.turnsOfLines(bytes);
}

export const WASM_PROVER: Prover = {
  async prove(asked: Asked, log: Uint8Array, place: ProofPlace): Promise<Uint8Array> {
    const built = await loaded();
    if (built === null) throw new Error("this page has no WebAssembly core");
    const session = new built.Session(questionOf(built, asked));
    try {
      session.push(log);
      const count = session.open();
      return session.prove(turnAt(session, count, place));
    } finally {
      session.free();
    }
  },
};

/** The number that the core gives to the turn with these lines. */
function turnAt(session: Session, count: number, place: ProofPlace): number {
  const step = 1000;
  for (let from = 0; from < count; from += step) {
    const rows = JSON.parse(session.rows(from, step)) as { turn: number; lines: [number, number] | null }[];
    const found = rows.find((row) => row.lines !== null && row.lines[0] <= place.lines[0] && place.lines[0] <= row.lines[1]);
    if (found !== undefined) return found.turn;
  }
  return place.turn;
}
