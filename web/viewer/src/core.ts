// What verifies: engines behind one interface. The page runs two of them over the same bytes and shows both answers.

/** A key whose signatures count. */
export interface TrustedKey {
  readonly name: string;
  readonly usages: readonly string[];
  /** 64 hex digits. */
  readonly public: string;
  readonly threads?: readonly string[];
  readonly notBefore?: number;
  readonly notAfter?: number;
  /** `next`: the key to which its owner rotated it, 64 hex digits. */
  readonly revoked?: { readonly at: number; readonly reason: string; readonly next?: string };
}

export interface Trusted {
  readonly keys: readonly TrustedKey[];
  /** Text of a trust store of `threadseal`, as an engine may read it. */
  readonly store: string | null;
  /** Identity files, whole. */
  readonly identities: readonly string[];
}

export const NO_TRUST: Trusted = { keys: [], store: null, identities: [] };

/** What is verified, beside the bytes that are pushed. */
export interface Asked {
  readonly name: string;
  readonly seals: Uint8Array | null;
  /** The file of detached bodies; null where it is not here. */
  readonly bodies: Uint8Array | null;
  /** Was a file of bodies left out on purpose, or is it unknown whether there is one? */
  readonly bodiesUnread: boolean;
  readonly trust: Trusted;
  /** A head that the record must contain: kept elsewhere. */
  readonly head: string | null;
}

export interface Finding {
  readonly code: string;
  readonly severity: "error" | "warning" | "note";
  readonly line: number | null;
  readonly bytes: readonly [number, number] | null;
  readonly turn: number | null;
  readonly message?: string;
}

export interface Signer {
  readonly key: string;
  readonly did: string | null;
  readonly name: string | null;
  readonly status: string;
}

/** A report of spec/report.md §1. */
export interface Report {
  readonly format: string;
  readonly profile: string;
  readonly verdict: string;
  readonly completeness: string;
  readonly trusted_until: { readonly line: number; readonly byte: number; readonly turn: number | null } | null;
  readonly record: string | null;
  readonly head: string | null;
  readonly dates?: { readonly sealed: string | null; readonly first_held: string | null; readonly last_held: string | null; readonly stamped: string | null };
  readonly signers: readonly Signer[];
  readonly findings: readonly Finding[];
  readonly checks: readonly { readonly name: string; readonly result: string; readonly why?: string | null }[];
  readonly unauthenticated: readonly string[];
  readonly stats: { readonly bytes: number; readonly events: number; readonly checkpoints: number };
}

/** The answer of one engine about one file. */
export interface Answer {
  readonly engine: string;
  /** Null: no verdict, and `error` has the cause. */
  readonly report: Report | null;
  readonly error: string | null;
  readonly milliseconds: number;
}

/** One verification that runs. Parts may have any size. */
export interface Run {
  push(part: Uint8Array): Promise<void>;
  /** Null: the same bytes have to be pushed again, from the first. */
  finish(): Promise<Report | null>;
}

export interface Engine {
  readonly name: string;
  /** Null: the engine is not built into this page. */
  begin(asked: Asked): Promise<Run | null>;
}

export interface ProofPlace {
  readonly turn: number;
  /** From 1, both included. */
  readonly lines: readonly [number, number];
}

export interface Prover {
  /** The bytes of a proof of the turn that has this line; refuses with an error. */
  prove(asked: Asked, log: Uint8Array, place: ProofPlace): Promise<Uint8Array>;
}

export interface Core {
  readonly engines: readonly Engine[];
  readonly prover: Prover | null;
}

/** Do two answers say the same of a record? Messages and times of engines are not compared. */
export function agree(a: Report, b: Report): boolean {
  return a.verdict === b.verdict && codesOf(a) === codesOf(b) && placeOf(a) === placeOf(b);
}

/** Where a record was sealed before is a head of it; without any seal beside it now, its seals were taken away. */
export function withHead(report: Report, asked: Asked): Report {
  if (asked.head === null || report.verdict !== "unsigned") return report;
  return { ...report, verdict: "tampered", findings: [...report.findings, { code: "seals_gone", severity: "error", line: null, bytes: null, turn: null }] };
}

function codesOf(report: Report): string {
  return [...new Set(report.findings.map((one) => one.code))].sort().join(" ");
}

function placeOf(report: Report): string {
  const until = report.trusted_until;
  return until === null ? "none" : `${until.line} ${until.byte} ${until.turn}`;
}
