// Verdicts in words: one sentence, and four answers that are never mixed: integrity, trust, completeness, freshness.

import { type Answer, type Report, agree } from "../core.js";
import type { Icon } from "./dom.js";
import { count } from "./format.js";

export type Light = "green" | "amber" | "red" | "none";

export interface Judged {
  readonly light: Light;
  readonly word: string;
  readonly sentence: string;
}

export interface Facet {
  readonly name: "Integrity" | "Trust" | "Completeness" | "Freshness";
  readonly light: Light;
  readonly sentence: string;
}

const EVIDENCE = new Set(["forged", "tampered", "forked", "rolled_back", "truncated", "foreign", "missing", "malformed"]);

export function isEvidence(report: Report): boolean {
  return EVIDENCE.has(report.verdict);
}

export function lightOf(report: Report): Light {
  if (isEvidence(report)) return "red";
  return report.verdict === "verified" ? "green" : "amber";
}

export const LIGHT_ICON: Readonly<Record<Light, Icon>> = { green: "seal", amber: "warn", red: "cross", none: "dash" };

/** What the answers of all engines come to. Where they differ, that is the answer. */
export function judged(answers: readonly Answer[]): Judged {
  const reports = answers.map((one) => one.report).filter((one) => one !== null);
  const first = reports[0];
  if (first === undefined) {
    return { light: "amber", word: "No verdict", sentence: `No verdict: ${answers[0]?.error ?? "nothing was verified"}.` };
  }
  if (reports.some((one) => !agree(first, one))) {
    return { light: "red", word: "Disagreement", sentence: "The two verifiers in this page disagree, so do not rely on either of them." };
  }
  if (answers.some((one) => one.report === null)) {
    const failed = answers.find((one) => one.report === null)!;
    const judgement = sentenceOf(first);
    return { ...judgement, light: judgement.light === "green" ? "amber" : judgement.light, sentence: `${judgement.sentence} The verifier in ${failed.engine} gave no answer.` };
  }
  return sentenceOf(first);
}

function signersOf(report: Report): string {
  const names = report.signers.filter((one) => one.status === "trusted" || one.status === "pinned").map((one) => one.name ?? one.key.slice(0, 12));
  return names.length === 0 ? "a trusted key" : names.length <= 2 ? names.join(" and ") : `${names[0]} and ${names.length - 1} more`;
}

function placeOf(report: Report): string {
  const found = report.findings.find((one) => one.severity === "error" && (one.line !== null || one.turn !== null || one.bytes !== null));
  if (found === undefined) return "";
  if (found.line !== null) return ` at line ${found.line.toLocaleString("en")}`;
  if (found.turn !== null) return ` in turn ${found.turn}`;
  return ` at byte ${found.bytes![0].toLocaleString("en")}`;
}

function sentenceOf(report: Report): Judged {
  const place = placeOf(report);
  const light = lightOf(report);
  switch (report.verdict) {
    case "verified":
      return { light, word: "Verified", sentence: `Verified: nothing was changed since ${signersOf(report)} sealed it, and nothing is missing.` };
    case "open":
      return { light, word: "Sealed, open", sentence: `Unchanged since ${signersOf(report)} sealed it. Whether newer turns exist, this copy alone cannot show.` };
    case "unsigned_tail":
      return { light, word: "Sealed, still growing", sentence: "Everything up to the last seal is unchanged. What came after it is not sealed yet." };
    case "partial":
      return { light, word: "In part", sentence: "Every signature holds, but some of what you read lies outside them." };
    case "consistent":
      return { light, word: "Consistent", sentence: "The chain fits together, but no key signed it." };
    case "unsigned":
      return { light, word: "Not sealed", sentence: "Nothing protects this record: no claim about it can be checked." };
    case "unknown_signer":
      return { light, word: "Unknown signer", sentence: "Nothing was changed since it was sealed. The key that sealed it is not one you trust." };
    case "tampered":
      return { light, word: "Changed", sentence: `Changed${place}: this is not what was sealed.` };
    case "forged":
      return { light, word: "Forged", sentence: `Forged${place}: a signature or a key does not fit.` };
    case "forked":
      return { light, word: "Forked", sentence: `Forked: two sealed continuations of one beginning exist${place}.` };
    case "rolled_back":
      return { light, word: "Rolled back", sentence: "Rolled back: a newer state of this record is known." };
    case "truncated":
      return { light, word: "Cut", sentence: "Cut: the record is shorter than a known head requires." };
    case "foreign":
      return { light, word: "Another record", sentence: "This is a sealed record, but of another thread, run or place." };
    case "missing":
      return { light, word: "Missing", sentence: "The record that these seals cover is not here." };
    case "malformed":
      return { light, word: "Unreadable", sentence: `It cannot be read as what it claims to be${place}.` };
    default:
      return { light: "amber", word: report.verdict, sentence: `The verdict is ${report.verdict}.` };
  }
}

/** `sealed`: the time that the last seal states, where the report has none. */
export function facets(report: Report, sealed: string | null = null): Facet[] {
  return [integrity(report), trust(report), completeness(report), freshness(report, sealed)];
}

function integrity(report: Report): Facet {
  const name = "Integrity";
  const seals = count(report.stats.checkpoints, "seal");
  if (isEvidence(report)) {
    const until = report.trusted_until;
    const good = until === null ? "No part of it can be relied on." : `Up to line ${until.line.toLocaleString("en")} it is as it was sealed.`;
    return { name, light: "red", sentence: `${sentenceOf(report).sentence} ${good}` };
  }
  if (report.verdict === "unsigned" || report.verdict === "consistent") return { name, light: "none", sentence: "There is no seal, so a change could not be seen." };
  if (report.verdict === "unsigned_tail") return { name, light: "amber", sentence: `${seals} hold. The bytes after the last one are not covered.` };
  if (report.verdict === "partial") return { name, light: "amber", sentence: `${seals} hold, but named parts lie outside them.` };
  const redacted = report.findings.filter((one) => one.code === "redacted").length;
  return { name, light: "green", sentence: `Every byte is as it was sealed: ${seals} hold.${redacted > 0 ? ` ${count(redacted, "redaction")} left the seals valid.` : ""}` };
}

function trust(report: Report): Facet {
  const name = "Trust";
  if (report.signers.length === 0) return { name, light: "none", sentence: "No signer was found." };
  const bad = report.signers.find((one) => one.status === "revoked" || one.status === "rejected");
  if (bad !== undefined) return { name, light: "red", sentence: `The key ${bad.key.slice(0, 12)}… was revoked.` };
  const unknown = report.signers.filter((one) => one.status !== "trusted" && one.status !== "pinned");
  if (unknown.length > 0) return { name, light: "amber", sentence: `Key ${unknown[0]!.key.slice(0, 12)}… sealed it. Add the signer's identity file if you trust it.` };
  return { name, light: "green", sentence: `Sealed by ${signersOf(report)}, whose key is trusted here.` };
}

function completeness(report: Report): Facet {
  const name = "Completeness";
  if (report.completeness === "final") return { name, light: "green", sentence: "The last seal ends the record: nothing can follow it." };
  if (report.completeness === "head") return { name, light: "green", sentence: "It has the newest head that is known here." };
  return { name, light: "amber", sentence: "The record has no sealed end, so later turns may exist elsewhere." };
}

function freshness(report: Report, sealed: string | null): Facet {
  const name = "Freshness";
  const dates = report.dates;
  if (dates?.stamped) return { name, light: "green", sentence: `An authority stamped it no later than ${dates.stamped}.` };
  const time = dates?.sealed ?? sealed;
  if (time) return { name, light: "none", sentence: `Sealed at ${time}, by the signer's own clock. No one else confirms the time here.` };
  return { name, light: "none", sentence: "A file alone cannot show when it was sealed, or whether a newer copy exists." };
}

const CODES: Readonly<Record<string, string>> = {
  line_changed: "This line was changed after it was sealed",
  lines_removed: "Lines were removed here",
  line_removed: "A line was removed here",
  line_added: "A line was added here",
  line_inserted: "A line was inserted here",
  content_changed: "This content was changed after it was sealed",
  signature_bad: "A signature does not hold",
  key_unknown: "No one you trust vouches for the key",
  key_revoked: "The key was revoked",
  unsigned_tail: "These bytes came after the last seal",
  end_unproved: "Nothing shows that the last seal is the newest",
  redacted: "A part was redacted; the seals stay valid",
  body_missing: "A detached body is not here",
  bodies_unread: "Detached bodies were not looked for",
  truncated: "The end is missing",
  log_truncated: "Sealed lines are missing at the end",
};

export function codeText(code: string): string {
  return CODES[code] ?? code.replaceAll("_", " ");
}
