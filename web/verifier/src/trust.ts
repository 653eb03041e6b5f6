// Trust (keys-and-trust.md §7, §8): the entries of a store, pins, and the judging of one key. Reading a
// store from its file is not here; a caller brings the entries.

import { equal, hex } from "./bytes.js";
import { didKey, isPublicKey, keyId } from "./ed25519.js";
import type { Report, Severity, Signer, SignerStatus, Verdict } from "./report.js";
import { rank } from "./report.js";

export type Usage = "native" | "rye" | "observed" | "scroll" | "igor" | "log" | "witness";
export type Format = "transcript" | "log" | "json" | "text" | "scroll" | "ledger" | "lineage";

export const USAGES: readonly Usage[] = ["native", "rye", "observed", "scroll", "igor", "log", "witness"];

export interface TrustEntry {
  readonly name: string;
  readonly key: Uint8Array;
  readonly usages: readonly Usage[];
  /** Patterns of thread ids; absent: `*`. */
  readonly threads?: readonly string[];
  /** Absent: all formats. */
  readonly formats?: readonly Format[];
  /** Seconds since 1970. */
  readonly notBefore?: number;
  readonly notAfter?: number;
  /** `next`: 64 hex digits, the key to which its owner rotated it. It makes no key count. */
  readonly revoked?: { readonly at: number; readonly reason: string; readonly entry?: number; readonly next?: string };
}

export interface Trust {
  readonly entries: readonly TrustEntry[];
  /** 32 bytes each: a key, or the id of a key. */
  readonly pins: readonly Uint8Array[];
  /** The clock of the verifier, seconds since 1970. */
  readonly now: number;
}

export interface Purpose {
  readonly usage: Usage;
  readonly format: Format;
  readonly thread: string | null;
}

/** What the host knows of when a seal was made (§8.1). A verifier without a home has `NO_EVIDENCE`. */
export interface Evidence {
  readonly moment: number | null;
  readonly place: "before" | "not" | "in doubt";
}

export const NO_EVIDENCE: Evidence = { moment: null, place: "not" };

export type Standing =
  | "pinned"
  | "trusted"
  | "revoked"
  | "revoked_in_doubt"
  | "rotated"
  | "not_pinned"
  | "unknown"
  | "out_of_scope"
  | "expired";

export interface Judgement {
  readonly standing: Standing;
  readonly name: string | null;
}

/** Judges a key for a purpose: §8.2. */
export function judge(key: Uint8Array, purpose: Purpose, trust: Trust, evidence: Evidence = NO_EVIDENCE): Judgement {
  const entries = trust.entries.filter((entry) => equal(entry.key, key));
  const meant = entries.find((entry) => entry.usages.includes(purpose.usage));
  const first = [...entries].sort((a, b) => (a.name < b.name ? -1 : 1))[0];
  return { standing: standingOf(key, purpose, trust, evidence, entries), name: (meant ?? first)?.name ?? null };
}

function standingOf(
  key: Uint8Array,
  purpose: Purpose,
  trust: Trust,
  evidence: Evidence,
  entries: readonly TrustEntry[],
): Standing {
  const end = endOf(entries, evidence);
  if (end !== null) return end;
  if (trust.pins.length > 0) return isPinned(key, trust) ? "pinned" : "not_pinned";
  if (entries.length === 0) return "unknown";
  const meant = entries.find((entry) => entry.usages.includes(purpose.usage));
  if (meant === undefined || !inScope(meant, purpose)) return "out_of_scope";
  const moment = evidence.moment ?? trust.now;
  if (meant.notBefore !== undefined && moment < meant.notBefore) return "expired";
  if (meant.notAfter !== undefined && moment > meant.notAfter) return "expired";
  return "trusted";
}

/** Step 1 of §8.2. */
function endOf(entries: readonly TrustEntry[], evidence: Evidence): Standing | null {
  const all = entries.flatMap((entry) => (entry.revoked === undefined ? [] : [entry.revoked]));
  const earliest = Math.min(...all.map((end) => end.at));
  const ends = all.filter((end) => end.at === earliest);
  const left = ends.filter((end) =>
    end.entry === undefined ? !(evidence.moment !== null && evidence.moment < end.at) : evidence.place !== "before",
  );
  if (left.length === 0) return null;
  if (evidence.place === "in doubt" && left.every((end) => end.entry !== undefined)) return "revoked_in_doubt";
  return all.every((end) => end.next !== undefined && end.entry === undefined) ? "rotated" : "revoked";
}

/** Whether the key ended, also where that accuses no seal. */
function isEnded(standing: Standing): boolean {
  return standing === "revoked" || standing === "revoked_in_doubt" || standing === "rotated";
}

function isPinned(key: Uint8Array, trust: Trust): boolean {
  const id = keyId(key);
  return trust.pins.some((pin) => equal(pin, key) || equal(pin, id));
}

function inScope(entry: TrustEntry, purpose: Purpose): boolean {
  if (entry.formats !== undefined && !entry.formats.includes(purpose.format)) return false;
  const patterns = entry.threads ?? ["*"];
  const thread = purpose.thread;
  return patterns.some((pattern) => (thread === null ? pattern === "*" : matchesPattern(pattern, thread)));
}

/** `*` matches any run of characters, every other character itself. */
export function matchesPattern(pattern: string, text: string): boolean {
  const parts = pattern.split("*");
  const head = parts[0] ?? "";
  if (parts.length === 1) return text === pattern;
  const tail = parts[parts.length - 1] ?? "";
  if (!text.startsWith(head) || text.length < head.length + tail.length || !text.endsWith(tail)) return false;
  let at = head.length;
  const end = text.length - tail.length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** Only these let a signature count. */
export function counts(standing: Standing): boolean {
  return standing === "pinned" || standing === "trusted";
}

export interface StandingRow {
  readonly status: SignerStatus;
  readonly code: string | null;
  readonly severity: Severity;
  readonly verdict: Verdict;
}

const ROWS: Readonly<Record<Standing, StandingRow>> = {
  pinned: { status: "pinned", code: null, severity: "note", verdict: "verified" },
  trusted: { status: "trusted", code: null, severity: "note", verdict: "verified" },
  revoked: { status: "revoked", code: "key_revoked", severity: "error", verdict: "forged" },
  revoked_in_doubt: { status: "revoked", code: "key_end_doubted", severity: "warning", verdict: "unknown_signer" },
  rotated: { status: "revoked", code: "key_rotated", severity: "warning", verdict: "unknown_signer" },
  not_pinned: { status: "other", code: "other_signer", severity: "warning", verdict: "unknown_signer" },
  unknown: { status: "unknown", code: "key_unknown", severity: "warning", verdict: "unknown_signer" },
  out_of_scope: { status: "out_of_scope", code: "key_out_of_scope", severity: "warning", verdict: "unknown_signer" },
  expired: { status: "out_of_scope", code: "key_out_of_scope", severity: "warning", verdict: "unknown_signer" },
};

/** The row of a standing in the table of §8.2. */
export function rowOf(standing: Standing): StandingRow {
  return ROWS[standing];
}

/** Every key that the trust knows: of its entries, and pins that are keys, each once. For trying by a hint. */
export function knownKeys(trust: Trust): Uint8Array[] {
  const keys = new Map<string, Uint8Array>();
  for (const entry of trust.entries) keys.set(hex(entry.key), entry.key);
  for (const pin of trust.pins) if (isPublicKey(pin)) keys.set(hex(pin), pin);
  return [...keys.values()];
}

/** A judged signer of a report. */
export function signerOf(key: Uint8Array, judgement: Judgement, sealedBy?: readonly string[]): Signer {
  const signer = {
    key: hex(keyId(key)),
    did: didKey(key),
    name: judgement.name,
    status: rowOf(judgement.standing).status,
  };
  return sealedBy === undefined ? signer : { ...signer, sealed_by: sealedBy };
}

/** Judges one key and puts signer and finding into the report; whether it counts. */
export function judgeOne(report: Report, key: Uint8Array, purpose: Purpose, trust: Trust): boolean {
  const judgement = judge(key, purpose, trust);
  const row = rowOf(judgement.standing);
  report.signers.push(signerOf(key, judgement));
  if (row.code !== null) report.downgrade(row.verdict, row.code, row.severity);
  return counts(judgement.standing);
}

/** A key that sealed a native record, and whether an `authority` event let it in. */
export interface Sealer {
  readonly key: Uint8Array;
  readonly heir: boolean;
}

export const MAX_SEALED_BY = 64;

/**
 * Judges the keys that sealed a native record, in the order of their first seals, by the trust in them
 * and in the authority (transcript.md §5, "Trust"; proofs.md, "Signers"). Whether all count. An authority
 * that is revoked always counts (rule 5), so also beside an heir that counts for itself (rule 3).
 */
export function judgeSealers(
  report: Report,
  sealers: readonly Sealer[],
  authority: Uint8Array,
  purpose: Purpose,
  trust: Trust,
): boolean {
  const found = new Map<string, { key: Uint8Array; judgement: Judgement; through: string[] }>();
  const add = (key: Uint8Array, judgement: Judgement, sealer: Uint8Array | null): void => {
    const name = hex(key);
    const one = found.get(name) ?? { key, judgement, through: [] };
    if (verdictRank(judgement) < verdictRank(one.judgement)) one.judgement = judgement;
    if (sealer !== null && !one.through.includes(hex(keyId(sealer)))) one.through.push(hex(keyId(sealer)));
    found.set(name, one);
  };
  for (const sealer of sealers) {
    const { own, auth } = standings(sealer, authority, purpose, trust);
    const alone = isEnded(own.standing) || counts(own.standing) || sealer.heir;
    add(alone ? sealer.key : authority, alone ? own : auth, sealer.key);
  }
  const end = judge(authority, purpose, trust);
  if (sealers.length > 0 && isEnded(end.standing)) add(authority, end, null);
  for (const one of found.values()) {
    const self = one.through.length <= 1 && (one.through[0] ?? hex(keyId(one.key))) === hex(keyId(one.key));
    report.signers.push(signerOf(one.key, one.judgement, self ? undefined : one.through.slice(-MAX_SEALED_BY)));
    const row = rowOf(one.judgement.standing);
    if (row.code !== null) report.downgrade(row.verdict, row.code, row.severity);
  }
  return [...found.values()].every((one) => counts(one.judgement.standing));
}

/** Steps 1 and 2 of proofs.md, "Signers". Without a home there is no evidence for any of them. */
function standings(
  sealer: Sealer,
  authority: Uint8Array,
  purpose: Purpose,
  trust: Trust,
): { own: Judgement; auth: Judgement } {
  let own = judge(sealer.key, purpose, trust);
  const auth = judge(authority, purpose, trust);
  if (trust.pins.length === 0 || own.standing !== "not_pinned" || auth.standing === "not_pinned") return { own, auth };
  const alone = judge(sealer.key, purpose, { ...trust, pins: [] });
  if (counts(alone.standing) && counts(auth.standing) && sealer.heir) own = alone;
  return { own, auth };
}

function verdictRank(judgement: Judgement): number {
  return rank(rowOf(judgement.standing).verdict);
}
