// Reports (report.md §1 to §3): verdicts in their order, findings, and what else a report states.

/** In the order of report.md §2: of several that apply, a report has the first. */
export const VERDICTS = [
  "forged",
  "tampered",
  "forked",
  "rolled_back",
  "truncated",
  "foreign",
  "missing",
  "malformed",
  "unknown_signer",
  "unsigned",
  "partial",
  "consistent",
  "unsigned_tail",
  "open",
  "verified",
] as const;

export type Verdict = (typeof VERDICTS)[number];
export type Severity = "error" | "warning" | "note";
export type Completeness = "final" | "head" | "unproved";
export type SignerStatus = "trusted" | "pinned" | "other" | "unknown" | "revoked" | "out_of_scope" | "rejected";

/** At most so many findings of one severity are kept (report.md §3). */
export const MAX_FINDINGS = 64;

export interface Place {
  /** From 1. */
  readonly line: number | null;
  /** From the first byte to the one behind the last. */
  readonly bytes: readonly [number, number] | null;
  readonly turn: number | bigint | null;
}

export interface Finding extends Place {
  readonly code: string;
  readonly severity: Severity;
}

export interface Signer {
  /** The key id, or Rye's fingerprint where the key is not known. */
  readonly key: string;
  readonly did: string | null;
  readonly name: string | null;
  readonly status: SignerStatus;
  readonly sealed_by?: readonly string[];
}

export interface Check {
  readonly name: string;
  readonly result: "pass" | "fail" | "skipped";
}

export interface TrustedUntil {
  readonly line: number;
  readonly byte: number;
  readonly turn: number | bigint | null;
}

/** 0 is the worst. */
export function rank(verdict: Verdict): number {
  return VERDICTS.indexOf(verdict);
}

export function worse(a: Verdict, b: Verdict): Verdict {
  return rank(a) <= rank(b) ? a : b;
}

/** Whether the verdict is evidence against the record: those of exit 1. */
export function isEvidence(verdict: Verdict): boolean {
  return rank(verdict) <= rank("malformed");
}

/** The exit code of a verdict (report.md §2). */
export function exitOf(verdict: Verdict): 0 | 1 | 3 {
  if (verdict === "verified") return 0;
  return isEvidence(verdict) ? 1 : 3;
}

export class Report {
  verdict: Verdict = "verified";
  completeness: Completeness = "unproved";
  trusted_until: TrustedUntil | null = null;
  record: string | null = null;
  head: string | null = null;
  signers: Signer[] = [];
  unauthenticated: string[] = [];
  readonly findings: Finding[] = [];
  readonly checks: Check[] = [];
  readonly stats: { bytes: number; events: number; checkpoints: number } = { bytes: 0, events: 0, checkpoints: 0 };

  constructor(
    readonly format: string,
    public profile: string,
  ) {}

  /** Adds a finding. The verdict becomes this one where it is worse; null leaves it as it is. */
  downgrade(verdict: Verdict | null, code: string, severity: Severity, place: Partial<Place> | null = null): void {
    if (verdict !== null) this.verdict = worse(this.verdict, verdict);
    const count = this.findings.filter((one) => one.code === code).length;
    if (count >= MAX_FINDINGS) {
      if (!this.findings.some((one) => one.code === "more_findings")) {
        this.findings.push({ code: "more_findings", severity: "note", line: null, bytes: null, turn: null });
      }
      return;
    }
    const { line = null, bytes = null, turn = null } = place ?? {};
    this.findings.push({ code, severity, line, bytes, turn });
  }

  /** Forgets verdict, findings and checks. */
  clear(): void {
    this.verdict = "verified";
    this.findings.length = 0;
    this.checks.length = 0;
  }

  check(name: string, result: Check["result"]): void {
    this.checks.push({ name, result });
  }

  /** The codes of all findings, sorted, each once. */
  codes(): string[] {
    return [...new Set(this.findings.map((one) => one.code))].sort();
  }
}
