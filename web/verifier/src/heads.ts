// Expected heads: reading their text, following one through seals, turns or records, and the table of results.
// Rules: transcript.md §6, scroll.md §8.4 step 3.

import type { Severity, Verdict } from "./report.js";

export type ExpectedHead =
  | { readonly kind: "digest"; readonly line: string }
  | {
      readonly kind: "full";
      readonly record: string;
      readonly seq: bigint;
      readonly size: bigint;
      readonly line: string;
    };

const HEX_64 = /^[0-9a-f]{64}$/;
const DECIMAL = /^(?:0|[1-9][0-9]*)$/;

/** A head, a bare digest, or `sha256:` and a digest; null for any other text. */
export function parseHead(text: string): ExpectedHead | null {
  const bare = text.startsWith("sha256:") ? text.slice(7) : text;
  if (HEX_64.test(bare)) return { kind: "digest", line: bare };
  const [record, seq, size, line, ...more] = text.split(":");
  if (record === undefined || seq === undefined || size === undefined || line === undefined) return null;
  if (more.length > 0 || !HEX_64.test(record) || !HEX_64.test(line)) return null;
  if (!DECIMAL.test(seq) || !DECIMAL.test(size)) return null;
  return { kind: "full", record, seq: BigInt(seq), size: BigInt(size), line };
}

/** A seal, turn or record that may meet a head. */
export interface HeadCandidate {
  /** Its place from 0. */
  readonly seq: number;
  readonly size: bigint;
  readonly line: string;
}

/** Follows one expected head through the seals, turns or records of a file. */
export class HeadWatch {
  /** The last place that meets the head, or -1. */
  metAt = -1;
  /** The place that differs from it, or -1. */
  differsAt = -1;

  constructor(readonly head: ExpectedHead) {}

  clone(): HeadWatch {
    const copy = new HeadWatch(this.head);
    copy.metAt = this.metAt;
    copy.differsAt = this.differsAt;
    return copy;
  }

  /** Compares one candidate, `record` being that of the file; true where it contradicts the head. */
  see(record: string | null, at: HeadCandidate): boolean {
    if (record === null) return false;
    if (this.head.kind === "digest") {
      if (at.line === this.head.line) this.metAt = at.seq;
      return false;
    }
    if (record !== this.head.record || BigInt(at.seq) !== this.head.seq) return false;
    if (at.line === this.head.line && at.size === this.head.size) {
      this.metAt = at.seq;
      return false;
    }
    this.differsAt = at.seq;
    return true;
  }

  /** The finding at the end, or null where the head is met as it should be. */
  result(record: string | null, count: number, exact: boolean): HeadResult | null {
    if (this.metAt >= 0) {
      if (!exact || this.metAt === count - 1) return null;
      return { code: "head_not_last", verdict: "open", severity: "error" };
    }
    if (this.differsAt >= 0) return { code: "head_differs", verdict: "forked", severity: "error" };
    if (this.head.kind === "digest") return { code: "head_missing", verdict: "truncated", severity: "error" };
    if (record !== null && record !== this.head.record) {
      return { code: "record_differs", verdict: "foreign", severity: "error" };
    }
    const ahead = this.head.seq >= BigInt(count);
    return { code: "head_ahead", verdict: ahead ? "truncated" : "tampered", severity: "error" };
  }
}

export interface HeadResult {
  readonly code: string;
  readonly verdict: Verdict;
  readonly severity: Severity;
}
