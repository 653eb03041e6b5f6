// The signers of scrolls and ledgers, each of which signs alone: all are judged, and each is reported once.
// Rules: spec/scroll.md §8.4 step 1, spec/ledger.md §6, "Verifying".

import { hex } from "./bytes.js";
import { keyId } from "./ed25519.js";
import type { Report } from "./report.js";
import { type Purpose, type Trust, counts, judge, judgeOne, rowOf } from "./trust.js";

export type { Purpose, Trust } from "./trust.js";
export { knownKeys } from "./trust.js";

/** Whether every one of the keys counts; true without a key. */
export function judgeSigners(report: Report, keys: readonly Uint8Array[], purpose: Purpose, trust: Trust): boolean {
  let all = true;
  for (const key of keys) {
    const id = hex(keyId(key));
    const told = report.signers.some((signer) => signer.key === id);
    const good = told ? counts(judge(key, purpose, trust).standing) : judgeOne(report, key, purpose, trust);
    all = all && good;
  }
  return all;
}

/** Signers of which only the id (or Rye's fingerprint) is known; none of them counts. */
export function judgeIds(report: Report, ids: readonly string[], trust: Trust): boolean {
  for (const id of ids) {
    const row = rowOf(trust.pins.length > 0 ? "not_pinned" : "unknown");
    report.signers.push({ key: id, did: null, name: null, status: row.status });
    if (row.code !== null) report.downgrade(row.verdict, row.code, row.severity);
  }
  return ids.length === 0;
}
