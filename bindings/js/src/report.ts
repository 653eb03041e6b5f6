// The report of `threadseal verify --json`, member for member: spec/report.md §1.

import { ThreadSealError, VerdictError } from "./errors.js";

export type Verdict =
  | "forged" | "tampered" | "forked" | "rolled_back" | "truncated" | "foreign" | "missing" | "malformed"
  | "unknown_signer" | "unsigned" | "partial" | "consistent" | "unsigned_tail" | "open" | "verified";

export type Format = "transcript" | "log" | "json" | "text" | "scroll" | "ledger" | "lineage" | "proof";

/** 0: verified, 1: evidence against the record, 2: no verdict, 3: not confirmed. */
export type Exit = 0 | 1 | 2 | 3;

export interface Finding {
  /** A stable code. A reader must expect codes that it does not know. */
  code: string;
  severity: "error" | "warning" | "note";
  line: number | null;
  bytes: [number, number] | null;
  turn: number | null;
  /** For people; may change. */
  message: string;
}

export interface Check {
  name: string;
  result: "pass" | "fail" | "skipped";
  why: string | null;
}

export interface Signer {
  key: string;
  did: string | null;
  name: string | null;
  status: "trusted" | "pinned" | "other" | "unknown" | "revoked" | "out_of_scope" | "rejected";
  sealed_by?: string[];
}

export interface TrustedUntil {
  /** The number of the last covered line. */
  line: number;
  /** The offset of the first byte that is not covered. */
  byte: number;
  turn: number | null;
}

/** The report on one claim about a file. */
export interface FileReport {
  path: string;
  format: Format;
  profile: string;
  verdict: Verdict;
  completeness: "final" | "head" | "unproved";
  /** A good signature of a trusted key covers everything before. */
  trusted_until: TrustedUntil | null;
  record: string | null;
  head: string | null;
  dates: { sealed: string | null; first_held: string | null; last_held: string | null; stamped: string | null };
  signers: Signer[];
  findings: Finding[];
  checks: Check[];
  unauthenticated: string[];
  trust: string | null;
  stats: { bytes: number; events: number; checkpoints: number };
  compat: Record<string, unknown>;
  conversion?: unknown;
}

/** What `threadseal verify --json` prints. */
export interface ReportFields {
  schema: "threadseal.verify/1";
  results: FileReport[];
  errors: { path: string | null; message: string }[];
  passed_over: number;
  summary: Partial<Record<Verdict | "pruned", number>>;
  exit: Exit;
  code: string | null;
}

export interface Report extends ReportFields {}

/** The report on a file. `JSON.stringify` gives the members that the command prints, and no others. */
export class Report {
  constructor(fields: ReportFields) {
    Object.assign(this, fields);
  }

  /** Is every claim about the file verified? */
  get verified(): boolean {
    return this.exit === 0;
  }

  /** The report that decides: the first of the worst. Null where no claim was judged. */
  get worst(): FileReport | null {
    const found = this.results.filter((report) => exitOf(report.verdict) === this.exit);
    return found[0] ?? this.results[0] ?? null;
  }

  /** The verdict that decides; null where no claim was judged. */
  get verdict(): Verdict | null {
    return this.worst?.verdict ?? null;
  }

  /** Returns itself if it is verified. `accept` names other verdicts that are good enough.
   *
   * @throws VerdictError with the report of the claim that is not. */
  require(accept: readonly Verdict[] = []): this {
    const [error] = this.errors;
    if (error !== undefined) throw new ThreadSealError(`there is no verdict: ${error.message}`);
    const bad = this.results.find((report) => report.verdict !== "verified" && !accept.includes(report.verdict));
    if (bad !== undefined) throw new VerdictError(refusal(bad), bad);
    if (this.results.length === 0) throw new ThreadSealError("there is no verdict: nothing in the file can be verified");
    return this;
  }
}

/** The exit code that one verdict has. */
export function exitOf(verdict: Verdict): Exit {
  switch (verdict) {
    case "verified":
      return 0;
    case "unknown_signer": case "unsigned": case "partial": case "consistent": case "unsigned_tail": case "open":
      return 3;
    default:
      return 1;
  }
}

/** The first of the worst findings. */
function worstFinding({ findings }: FileReport): Finding | undefined {
  for (const severity of ["error", "warning", "note"]) {
    const found = findings.find((finding) => finding.severity === severity);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The code of the finding that decided against the record; null for a verified one. */
export function codeOf(report: FileReport): string | null {
  return report.verdict === "verified" ? null : (worstFinding(report)?.code ?? null);
}

/** `PATH is VERDICT: the worst finding [code]`. */
export function refusal(report: FileReport): string {
  const worst = worstFinding(report);
  const why = worst === undefined ? "" : `: ${worst.message} [${worst.code}]`;
  return `${report.path || "the record"} is ${report.verdict}${why}`;
}

/** What `threadseal check-proof --json` prints. */
export interface ProofReport {
  schema: "threadseal.check-proof/1";
  result: FileReport;
  /** Null if the proof fails, or is of no turn. */
  turn: number | null;
  label?: string;
  lines: {
    line: number;
    event_type: string | null;
    text: string | null;
    restored: string | null;
    left_out_bytes: number | null;
  }[];
  anchor: {
    authenticated: boolean;
    origin: string;
    index: number;
    size: number;
    witnessed_at: number | null;
    witnesses: string[];
  } | null;
  exit: Exit;
  code: string | null;
}
