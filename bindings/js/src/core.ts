// The calls of the core: verify, prove, check, and read what is verified.

import { InputError, VerdictError } from "./errors.js";
import { asking, askingProof, type ProofOptions, type VerifyOptions } from "./question.js";
import { Report, codeOf, exitOf, refusal, type FileReport, type ProofReport, type ReportFields, type Verdict } from "./report.js";
import { call, core, init } from "./wasm.js";

/** The bytes of a file. A function gives them anew for each pass: a record with a fault is looked at twice. */
export type Source = Uint8Array | ArrayBuffer | Blob | (() => AsyncIterable<Uint8Array>);

/** Bytes that are pushed at once. */
const CHUNK_BYTES = 1 << 20;

/** Verifies one file: the report is the one that `threadseal verify --json` prints of that file alone, in a home
 * without anything. It rejects only where there is no report; a bad record is no error. */
export async function verify(source: Source, options: VerifyOptions = {}): Promise<Report> {
  await init();
  const verifier = asking(options, (question) => new core.Verifier(question));
  try {
    for (;;) {
      for await (const chunk of chunksOf(source)) call(() => verifier.push(chunk));
      const report = call(() => verifier.finish());
      if (report !== undefined) return new Report(JSON.parse(report) as ReportFields);
    }
  } finally {
    verifier.free();
  }
}

async function* chunksOf(source: Source): AsyncGenerator<Uint8Array> {
  if (typeof source === "function") {
    yield* source();
  } else if (source instanceof Blob) {
    for (let at = 0; at < source.size; at += CHUNK_BYTES) {
      yield new Uint8Array(await source.slice(at, at + CHUNK_BYTES).arrayBuffer());
    }
  } else {
    const bytes = wholeOf(source);
    for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES);
  }
}

function wholeOf(source: Uint8Array | ArrayBuffer): Uint8Array {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  throw new InputError("the source is neither bytes nor a Blob", { hint: "give a Uint8Array" });
}

/** A proof of one turn of a record. It shows that turn and no other; `checkProof` and `threadseal check-proof` check it. */
export async function prove(bytes: Uint8Array, turn: number, options: VerifyOptions = {}): Promise<Uint8Array> {
  const session = await openSession(bytes, options);
  try {
    return session.prove(turn);
  } finally {
    session.close();
  }
}

/** Checks a proof of a turn or of lines, a copy, a conflict, a fork or a tombstone. */
export async function checkProof(proof: Uint8Array, options: ProofOptions = {}): Promise<ProofReport> {
  await init();
  const named = { name: "proof", ...options };
  const answer = JSON.parse(askingProof(named, (question) => core.checkProof(question, proof))) as Omit<ProofReport, "exit" | "code">;
  return { ...answer, exit: exitOf(answer.result.verdict), code: codeOf(answer.result) };
}

/** One event of a verified record. */
export interface VerifiedEvent {
  /** The number of its line, from 1. */
  line: number;
  /** Its bytes in the file: the first, and the first after it. */
  bytes: [number, number];
  /** The JSON text, as it is sealed. */
  text: string;
  /** The text as a value. A number that a double cannot hold is rounded: `text` has its spelling. */
  value: Record<string, unknown>;
}

export interface EventOptions extends VerifyOptions {
  /** Verdicts besides `verified` with which the part up to the last good seal is given: `open`, `unsigned_tail`,
   * `partial`. */
  accept?: readonly Extract<Verdict, "open" | "unsigned_tail" | "partial">[];
}

/** The events of a record of lines, each under a good seal of a trusted key. Nothing after that seal is given.
 *
 * @throws VerdictError before the first event, where the record is not verified. */
export async function* verifiedEvents(bytes: Uint8Array, options: EventOptions = {}): AsyncGenerator<VerifiedEvent> {
  // Another owner of the bytes must not change them after the verdict. `slice` of a Buffer would share them.
  const own = new Uint8Array(bytes);
  const report = await verify(own, options);
  report.require(options.accept ?? []);
  yield* linesUntil(own, Math.min(...report.results.map(sealedBytes)));
}

/** How many bytes of a record of lines its seals cover. */
function sealedBytes(report: FileReport): number {
  if (!["transcript", "log", "ledger"].includes(report.format)) {
    throw new InputError(`${report.path || "the file"} has no events: its format is ${report.format}`);
  }
  // A verified record has such a seal.
  if (report.trusted_until === null) throw new VerdictError(refusal(report), report);
  return report.trusted_until.byte;
}

function* linesUntil(bytes: Uint8Array, end: number): Generator<VerifiedEvent> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  for (let from = 0, line = 1; from < end; line += 1) {
    const feed = bytes.indexOf(0x0a, from);
    const to = feed === -1 || feed > end ? end : feed;
    const text = decoder.decode(bytes.subarray(from, to));
    if (text.trim() !== "") yield { line, bytes: [from, to], text, value: JSON.parse(text) as Record<string, unknown> };
    from = to + 1;
  }
}

/** A turn in few words. */
export interface Row {
  turn: number;
  role: string;
  time: string | null;
  model: string | null;
  lines: [number, number] | null;
  bytes: [number, number] | null;
  tokens: TokenCounts | null;
  cost: number | null;
  tools: string[];
  failed: number;
  text: string;
  items: string[];
  sidechain: boolean;
  agent: string | null;
  seal: SealState;
}

export interface TokenCounts {
  input: number;
  output: number;
  cached: number;
  reasoning: number;
}

/** What the report proves about a turn. */
export interface SealState {
  state: "sealed" | "other_signer" | "changed" | "doubtful" | "unsealed";
  seal: number | null;
  time: string | null;
  by: string[];
  codes: string[];
  redacted: number[];
}

/** A turn with all its content. */
export interface Turn {
  row: Row;
  turn: number;
  role: string;
  time: string | null;
  model: string | null;
  texts: { type: string; text: string }[];
  calls: { id: string; name: string; args: string }[];
  results: { id: string; ok: boolean; text: string }[];
  source: unknown;
  events?: { line: number; byte: number; event_type: string; payload: string; text: string }[];
}

export interface Summary {
  name: string;
  kind: "session" | "transcript" | "scroll" | "ledger" | "document" | "lines";
  /** The mapping that reads it. */
  format: string | null;
  bytes: number;
  lines: number | null;
  first_turn: number;
  turns: number;
  tool_calls: number;
  tokens: TokenCounts;
  seals: { seq: number; bytes: number; time: string | null }[];
  verdict: Verdict | null;
}

/** The turns of one file, to show, to search and to prove. It holds the file; `close` frees it. */
export class Session {
  readonly #session: core.Session;
  readonly report: Report;
  readonly summary: Summary;

  /** @internal */
  constructor(session: core.Session) {
    this.#session = session;
    this.report = new Report(JSON.parse(session.report()) as ReportFields);
    this.summary = JSON.parse(session.summary()) as Summary;
  }

  /** Rows of `count` turns from the place `from`. */
  rows(from = 0, count = 0xffff_ffff): Row[] {
    return JSON.parse(call(() => this.#session.rows(from, count))) as Row[];
  }

  /** The turn of this number with all its content. */
  turn(turn: number): Turn {
    return JSON.parse(call(() => this.#session.turn(turn))) as Turn;
  }

  /** The first `most` turns that have all words of the query. */
  search(query: string, most = 100): { hits: { turn: number; text: string }[]; more: boolean } {
    return JSON.parse(call(() => this.#session.search(query, most))) as ReturnType<Session["search"]>;
  }

  /** A proof of one turn. */
  prove(turn: number): Uint8Array {
    return call(() => this.#session.prove(turn));
  }

  close(): void {
    this.#session.free();
  }
}

/** Opens a file: verifies it and reads its turns. */
export async function openSession(bytes: Uint8Array, options: VerifyOptions = {}): Promise<Session> {
  await init();
  return asking(options, (question) => {
    question.size(bytes.length);
    const session = new core.Session(question);
    try {
      session.push(bytes);
      session.open();
      return new Session(session);
    } catch (error) {
      session.free();
      throw error;
    }
  });
}

export interface Identity {
  id: string;
  name: string;
  /** The words that people compare. */
  words: string;
  seq: number;
  issued: string;
  recovery: string | null;
  links: string[];
  keys: {
    key_id: string;
    public: string;
    did: string;
    usage: string;
    proven: boolean;
    from: string | null;
    until: string | null;
    ended: { at: string; why: string } | null;
  }[];
}

/** The keys and the words of an identity file, whose signatures are checked. */
export async function inspectIdentity(bytes: Uint8Array): Promise<Identity> {
  await init();
  return JSON.parse(call(() => core.inspectIdentity(bytes))) as Identity;
}

/** The version of the core. */
export async function version(): Promise<string> {
  await init();
  return core.version();
}
