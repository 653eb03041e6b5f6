// What is asked of a file: whose signatures count, by which moment, and what is beside it.

import { InputError } from "./errors.js";
import { call, core } from "./wasm.js";

export type Usage = "native" | "rye" | "observed" | "scroll" | "igor" | "log" | "witness";

/** Whose signatures count: a public key as 64 hex digits, did:key or PEM; a key for one use; or a file with an
 * identity, a trust store (`.toml`), a trusted key of Rye (`.toml`) or a public key. */
export type TrustSource = string | { key: string; usage: Usage } | { name: string; bytes: Uint8Array | string };

export interface TrustOptions {
  /** Whose signatures count. Without it no record is `verified`. */
  trust?: TrustSource | readonly TrustSource[];
  /** Accept only these signers: public keys, ids of keys, or the bytes of identities, as `--key`. */
  key?: string | Uint8Array | readonly (string | Uint8Array)[];
  /** The moment by which the trust counts: a date, or milliseconds since 1970. By default now. */
  now?: Date | number;
  /** The name of the file, as the report has it. It may also decide the kind of a file. */
  name?: string;
  /** The thread that the record must belong to. */
  thread?: string;
}

export interface VerifyOptions extends TrustOptions {
  /** The kind of the file, whatever it looks like. */
  kind?: "native" | "rye" | "document" | "transcript" | "log" | "json" | "text" | "scroll" | "ledger" | "lineage";
  /** The signatures that count. */
  profile?: "auto" | "native" | "rye" | "observed" | "scroll-v0.1";
  /** A head that the record must contain, as `threadseal` prints it. */
  expectHead?: string;
  /** `expectHead` must be the last one. */
  exactHead?: boolean;
  /** Check every signature, not only the last of each key. */
  everySignature?: boolean;
  /** The item type under which Rye signed a text. */
  item?: "directive" | "knowledge" | "tool" | "config";
  /** The run that a ledger must be of. */
  run?: string;
  /** The number of turns that a scroll must have. */
  scrollLength?: number;
  /** The number of records that a ledger must have. */
  ledgerLength?: number;
  /** The oldest moment of a signed turn of a scroll: nanoseconds since 1970. */
  oldestTurn?: bigint;
  /** Each digit of a timestamp of a scroll counts. */
  strictDigits?: boolean;
  /** Digests of code that a lineage may have run. */
  code?: readonly string[];
  /** The file `NAME.seal` beside it. */
  seal?: Uint8Array;
  /** The file of detached bodies beside it; `"unread"` if they were left out on purpose. */
  bodies?: Uint8Array | "unread";
  /** The file `NAME.head` beside a ledger. */
  head?: Uint8Array;
}

export interface ProofOptions extends TrustOptions {
  /** The policy by which the proof must have been witnessed (C2SP tlog-policy). */
  policy?: Uint8Array | string;
}

const text = new TextEncoder();

function bytesOf(value: Uint8Array | string): Uint8Array {
  return typeof value === "string" ? text.encode(value) : value;
}

function listOf<T>(value: T | readonly T[] | undefined): readonly T[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value as T];
}

function base(options: TrustOptions): core.Question {
  const now = options.now ?? Date.now();
  const question = new core.Question(options.name ?? "record", typeof now === "number" ? now : now.getTime());
  for (const source of listOf(options.trust)) addTrust(question, source);
  for (const pin of listOf<string | Uint8Array>(options.key)) question.pin("", bytesOf(pin));
  if (options.thread !== undefined) question.thread(options.thread);
  return question;
}

function addTrust(question: core.Question, source: TrustSource): void {
  if (typeof source === "string") question.trust("", text.encode(source));
  else if ("usage" in source) question.trustFor(source.usage, source.key);
  else question.trust(source.name, bytesOf(source.bytes));
}

/** The members that the module takes as they are, one call each. */
function setOptions(question: core.Question, options: VerifyOptions): void {
  const set = <T>(value: T | undefined, setter: (value: T) => void): void => {
    if (value !== undefined) setter(value);
  };
  set(options.kind, (kind) => question.kind(kind));
  set(options.profile, (profile) => question.profile(profile));
  set(options.expectHead, (head) => question.expectHead(head, options.exactHead ?? false));
  set(options.item, (item) => question.item(item));
  set(options.run, (run) => question.run(run));
  set(options.scrollLength, (count) => question.length("scroll", count));
  set(options.ledgerLength, (count) => question.length("ledger", count));
  set(options.oldestTurn, (moment) => question.oldestTurn(moment.toString()));
  set(options.seal, (bytes) => question.seal(bytes));
  set(options.head, (bytes) => question.head(bytes));
  for (const digest of options.code ?? []) question.code(digest);
  if (options.everySignature === true) question.everySignature();
  if (options.strictDigits === true) question.strictDigits();
  if (options.bodies === "unread") question.withoutBodies();
  else set(options.bodies, (bytes) => question.bodies(bytes));
}

/** Runs `body` with the question of these options, and frees it. */
export function asking<T>(options: VerifyOptions, body: (question: core.Question) => T): T {
  if (options.exactHead === true && options.expectHead === undefined) {
    throw new InputError("`exactHead` needs a head", { hint: "give `expectHead`" });
  }
  return call(() => {
    const question = base(options);
    try {
      setOptions(question, options);
      return body(question);
    } finally {
      question.free();
    }
  });
}

/** As `asking`, for a proof. */
export function askingProof<T>(options: ProofOptions, body: (question: core.Question) => T): T {
  return call(() => {
    const question = base(options);
    try {
      if (options.policy !== undefined) question.policy(bytesOf(options.policy));
      return body(question);
    } finally {
      question.free();
    }
  });
}
