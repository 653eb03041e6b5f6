// Verdicts in words: one sentence, and four answers that are never mixed: integrity, trust, completeness, freshness.

import { type Answer, type Report, type Signer, agree } from "../core.js";
import { NO_TURNS, type Turns } from "../turns.js";
import { type Icon, visible } from "./dom.js";
import { count } from "./format.js";

export type Light = "green" | "amber" | "red" | "none";

export interface Judged {
  readonly light: Light;
  readonly word: string;
  readonly sentence: string;
  /** The place that the sentence names, to go there. */
  readonly place?: { readonly words: string; readonly line: number };
}

/** What names the places of a record; without it lines are named. */
export interface Places {
  readonly turns: Turns;
  readonly lines: number;
}

const NO_PLACES: Places = { turns: NO_TURNS, lines: 0 };

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
export function judged(answers: readonly Answer[], places = NO_PLACES): Judged {
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
    const judgement = sentenceOf(first, places);
    return { ...judgement, light: judgement.light === "green" ? "amber" : judgement.light, sentence: `${judgement.sentence} The verifier in ${failed.engine} gave no answer.` };
  }
  return sentenceOf(first, places);
}

/** A longer name would push what is read out of sight. */
const MAX_NAME = 64;

/** Keys that `threadseal init` makes are named for their use; here they are named for their owner. Other names are foreign. */
export function nameOf(signer: Signer): string {
  if (signer.name === null) return `key ${shortKey(signer)}`;
  if (/^self(-[a-z]+)?$/.test(signer.name)) return "this machine's own key";
  const name = visible(signer.name);
  return `“${name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name}”`;
}

function shortKey(signer: Signer): string {
  return `${signer.key.slice(0, 12)}…`;
}

function isTrusted(signer: Signer): boolean {
  return signer.status === "trusted" || signer.status === "pinned";
}

function signersOf(report: Report): string {
  const names = [...new Set(report.signers.filter(isTrusted).map(nameOf))];
  return names.length === 0 ? "a trusted key" : names.length <= 2 ? names.join(" and ") : `${names[0]} and ${names.length - 1} more`;
}

function placeOf(report: Report, { turns }: Places): { words: string; link: Pick<Judged, "place"> } {
  const found = report.findings.find((one) => one.severity === "error" && (one.line !== null || one.turn !== null || one.bytes !== null));
  if (found === undefined) return { words: "", link: {} };
  if (found.line !== null) {
    const words = turns.place(found.line);
    return { words: ` at ${words}`, link: { place: { words, line: found.line } } };
  }
  return { words: found.turn !== null ? ` in turn ${found.turn}` : ` at byte ${found.bytes![0].toLocaleString("en")}`, link: {} };
}

/** What came after the last seal: `Turns 48 to 50`; null: nothing did. */
function tailOf(report: Report, { turns, lines }: Places): string | null {
  const found = report.findings.find((one) => one.code === "unsigned_tail");
  if (found === undefined && report.verdict !== "unsigned_tail") return null;
  return found?.line == null ? "What came after it" : turns.from(found.line, lines || report.stats.events);
}

/** The one answer on what holds of a changed record, in the banner, its details and the list. */
function reliance(report: Report, { turns }: Places): string {
  const until = report.trusted_until;
  if (until !== null) return `Up to ${turns.place(until.line)} it is as it was sealed; nothing after that can be relied on.`;
  const isKnown = report.signers.some(isTrusted);
  return isKnown ? "No part of it can be relied on." : "No part of it can be relied on, while its key is not one you trust.";
}

function sentenceOf(report: Report, places: Places): Judged {
  const { words: place, link } = placeOf(report, places);
  const light = lightOf(report);
  const tail = tailOf(report, places);
  switch (report.verdict) {
    case "verified": {
      const redacted = report.findings.filter((one) => one.code === "redacted").length;
      const rest = redacted === 0 ? "and nothing is missing" : `but for ${count(redacted, "place")} that ${redacted === 1 ? "is" : "are"} marked as redacted`;
      return { light, word: "Verified", sentence: `Verified: nothing was changed since ${signersOf(report)} sealed it, ${rest}.` };
    }
    case "open":
      return { light, word: "Sealed, open", sentence: `Unchanged since ${signersOf(report)} sealed it. Whether newer turns exist, this copy alone cannot show.` };
    case "unsigned_tail":
      return { light, word: "Sealed, still growing", sentence: `Up to the last seal, nothing was changed since ${signersOf(report)} sealed it. ${tail} came after that seal: nothing protects that part yet.` };
    case "partial": {
      const isShort = report.findings.some((one) => one.code === "bodies_unread");
      return { light, word: "In part", sentence: isShort ? "Unchanged as far as it is here: texts that were sealed with it were left out of this copy." : "Every signature holds, but some of what you read is outside of what they cover." };
    }
    case "consistent":
      return { light, word: "Consistent", sentence: "The chain fits together, but no key signed it." };
    case "unsigned":
      return { light, word: "Not sealed", sentence: "Nothing protects this record: no claim about it can be checked." };
    case "unknown_signer":
      return { light, word: "Unknown signer", sentence: `${tail === null ? "Nothing was changed" : "Up to the last seal, nothing was changed"} since ${unknownKey(report)} sealed it. That key is not one you trust.${tail === null ? "" : ` ${tail} came after that seal: nothing protects that part.`}` };
    case "tampered":
      if (report.findings.some((one) => one.code === "seals_gone")) return { light, word: "Seals gone", sentence: "Its seals are gone: this record was sealed before, and nothing protects it now." };
      return { light, word: "Changed", sentence: `Changed${place}: this is not what was sealed.`, ...link };
    case "forged":
      return { light, word: "Forged", sentence: `Forged${place}: a signature or a key does not fit.`, ...link };
    case "forked":
      return { light, word: "Forked", sentence: `Forked: two sealed continuations of one beginning exist${place}.`, ...link };
    case "rolled_back":
      return { light, word: "Rolled back", sentence: "Rolled back: this is an older state, and a newer one was sealed." };
    case "truncated":
      return { light, word: "Cut", sentence: "Cut: this copy ends before the newest seal that is known of it. A newer state was sealed." };
    case "foreign":
      return { light, word: "Another record", sentence: "This is a sealed record, but of another thread, run or place." };
    case "missing":
      return { light, word: "Missing", sentence: "The record that these seals cover is not here." };
    case "malformed":
      return { light, word: "Unreadable", sentence: `It cannot be read as what it claims to be${place}.`, ...link };
    default:
      return { light: "amber", word: report.verdict, sentence: `The verdict is ${report.verdict}.` };
  }
}

function unknownKey(report: Report): string {
  const signer = report.signers.find((one) => !isTrusted(one));
  return signer === undefined ? "an unknown key" : `key ${shortKey(signer)}`;
}

/** What a reader might believe, and this verdict does not show. */
export function unproved(report: Report, places = NO_PLACES): string[] {
  const isSealed = report.stats.checkpoints > 0;
  const tail = tailOf(report, places);
  return [
    !isSealed ? "That anything in it is as it was: nothing is sealed." : "",
    isSealed && !report.signers.some(isTrusted) ? "Whose key sealed it: a file cannot show who holds a key." : "",
    isEvidence(report) ? `The content as a whole. ${reliance(report, places)}` : "",
    tail === null ? "" : `${tail}: no seal covers what came after the last one.`,
    isSealed && report.completeness !== "final" && report.completeness !== "head" ? "That no later turns exist: this copy may be an older one." : "",
    isSealed && !report.dates?.stamped ? "The time: it is that of the signer's own clock." : "",
    report.findings.some((one) => one.code === "bodies_unread") ? "What the texts have that were left out." : "",
    report.findings.some((one) => one.code === "redacted") ? "What the redacted places had: only that they were sealed." : "",
    "That the agent reported the truth, or did nothing outside this record.",
  ].filter((one) => one !== "");
}

/** `sealed`: the time that the last seal states, where the report has none. Under a key that is not trusted nothing is green. */
export function facets(report: Report, sealed: string | null = null, places = NO_PLACES): Facet[] {
  const isVouched = report.signers.some(isTrusted);
  const all = [integrity(report, places), trust(report), completeness(report), freshness(report, sealed)];
  return all.map((one) => (one.light === "green" && !isVouched ? { ...one, light: "none" } : one));
}

function integrity(report: Report, places: Places): Facet {
  const name = "Integrity";
  const { checkpoints } = report.stats;
  const seals = `${count(checkpoints, "seal")} ${checkpoints === 1 ? "holds" : "hold"}`;
  if (isEvidence(report)) return { name, light: "red", sentence: `${sentenceOf(report, places).sentence} ${reliance(report, places)}` };
  if (report.verdict === "unsigned" || report.verdict === "consistent") return { name, light: "none", sentence: "There is no seal, so a change could not be seen." };
  const tail = tailOf(report, places);
  if (tail !== null) return { name, light: "amber", sentence: `${seals}. ${tail} came after the last one: no seal covers that part.` };
  if (report.verdict === "partial") return { name, light: "amber", sentence: `${seals}, but named parts are outside of what they cover.` };
  const redacted = report.findings.filter((one) => one.code === "redacted").length;
  return { name, light: "green", sentence: `Every byte is as it was sealed: ${seals}.${redacted > 0 ? ` ${count(redacted, "redaction")} left the seals valid.` : ""}` };
}

function trust(report: Report): Facet {
  const name = "Trust";
  if (report.signers.length === 0) return { name, light: "none", sentence: "No signer was found." };
  const bad = report.signers.find((one) => one.status === "revoked" || one.status === "rejected");
  const accused = bad?.status === "rejected" || report.findings.some((one) => one.code === "key_revoked");
  if (bad !== undefined && !accused) return { name, light: "amber", sentence: `The key ${shortKey(bad)} ended. Nothing here shows that it sealed this before.` };
  if (bad !== undefined) return { name, light: "red", sentence: `The key ${shortKey(bad)} was revoked.` };
  const unknown = report.signers.filter((one) => !isTrusted(one));
  if (unknown.length > 0) return { name, light: "amber", sentence: `Key ${shortKey(unknown[0]!)} sealed it. Whose it is, is not known here.` };
  return { name, light: "green", sentence: `Sealed by ${signersOf(report)}, ${shortKey(report.signers[0]!)}, which is trusted here.` };
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
  head_ahead: "A newer seal of this record is known: this is an older state",
  head_missing: "The newest known seal is not in this record",
  seals_gone: "It was sealed, and its seals are not here any more",
  lines_removed: "Lines were removed here",
  line_removed: "A line was removed here",
  line_added: "A line was added here",
  line_inserted: "A line was inserted here",
  content_changed: "This content was changed after it was sealed",
  signature_bad: "A signature does not hold",
  key_unknown: "No one you trust vouches for the key",
  key_revoked: "The key was revoked",
  key_rotated: "Its owner replaced the key, and nothing here shows that this is older",
  unsigned_tail: "These bytes came after the last seal",
  end_unproved: "Nothing shows that the last seal is the newest",
  redacted: "A part was redacted; the seals stay valid",
  body_missing: "A detached body is not here",
  bodies_unread: "Texts that are kept beside the record are not here",
  truncated: "The end is missing",
  log_truncated: "Sealed lines are missing at the end",
};

/** The checks of a report, as questions. */
const CHECKS: Readonly<Record<string, string>> = {
  trust: "Does a key that you trust vouch for it?", lines: "Is each line as it was sealed?", chain: "Do the seals follow each other?", head: "Is it the newest state that is known?",
  log: "Is it in the log of its host?", page: "Does the page show its record?", bodies: "Are the detached texts here, and unchanged?", signatures: "Does each signature hold?",
};

export function checkText(name: string): string {
  return CHECKS[name] ?? name.replaceAll("_", " ");
}

const RESULTS: Readonly<Record<string, string>> = { pass: "yes", fail: "no", skipped: "not checked" };

export function resultText(result: string): string {
  return RESULTS[result] ?? result;
}

/** The verdict of a report in a word for people. */
export function wordOf(report: Report): string {
  return sentenceOf(report, NO_PLACES).word;
}

export function codeText(code: string): string {
  return CODES[code] ?? code.replaceAll("_", " ");
}
