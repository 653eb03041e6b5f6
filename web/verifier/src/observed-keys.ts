// The keys of a seal file after its first one (transcript.md §9, "Next keys"): the lines that name them, and
// who of them counts.

import { ascii, equal, parseBase64, utf8 } from "./bytes.js";
import { verify } from "./ed25519.js";
import { parsePublicKey, taggedMessage } from "./native-lines.js";
import type { Report } from "./report.js";
import { type Judgement, type Purpose, type Standing, type Trust, counts, judge, rowOf, signerOf } from "./trust.js";

export const MAX_OBSERVED_NEXT_KEYS = 64;

export const NEXT_START = '{"format":"threadseal-observed/3","next":{"key":"';

const NEXT_FORM = /^\{"format":"threadseal-observed\/3","next":\{"key":"([0-9a-f]{64})","signature":"([A-Za-z0-9+/=]{88})"\}\}$/;
const MAX_NEXT_BYTES = 256;
const PURPOSE: Purpose = { usage: "observed", format: "log", thread: null };

export interface NextKey {
  readonly key: Uint8Array;
  readonly signature: Uint8Array;
}

/** Whether the line begins as one that names a next key. */
export function isNextLine(line: Uint8Array): boolean {
  return line.length >= NEXT_START.length && ascii(line, 0, NEXT_START.length) === NEXT_START;
}

/** Reads a line that names a next key, or null. */
export function parseNextKey(line: Uint8Array): NextKey | null {
  const parts = line.length > MAX_NEXT_BYTES ? null : NEXT_FORM.exec(ascii(line));
  const key = parsePublicKey(parts?.[1] ?? "");
  const signature = parseBase64(parts?.[2] ?? "=");
  if (parts === null || key === null || signature === null || signature.length !== 64) return null;
  return { key, signature };
}

/** Whether the key before signed that the next one takes its place. */
export function nextKeyHolds(before: Uint8Array, next: NextKey): Promise<boolean> {
  const message = taggedMessage("threadseal/observed/1 key event", [utf8("rotate"), before, next.key]);
  return verify(before, message, next.signature);
}

/** A key of the file, and whether it made a seal there. */
export interface FileKey {
  readonly key: Uint8Array;
  readonly seals: boolean;
}

/**
 * Judges the keys in the order in which they are named, and reports those that made seals; whether all of
 * these count. A key that is not known by itself counts as the key before it, if that one counts.
 */
export function judgeKeys(report: Report, keys: readonly FileKey[], trust: Trust): boolean {
  let all = true;
  let before: Judgement | null = null;
  for (const { key, seals } of keys) {
    const own: Judgement = judge(key, PURPOSE, trust);
    const isNamedOnly = own.standing === "unknown" || own.standing === "not_pinned";
    const standing: Standing = isNamedOnly && before !== null && counts(before.standing) ? before.standing : own.standing;
    const judgement: Judgement = { standing, name: own.name };
    before = judgement;
    if (!seals) continue;
    const row = rowOf(standing);
    report.signers.push(signerOf(key, judgement));
    if (row.code !== null) report.downgrade(row.verdict, row.code, row.severity);
    all = all && counts(standing);
  }
  return all;
}

/** Whether the key is one of these. */
export function hasKey(keys: readonly Uint8Array[], key: Uint8Array): boolean {
  return keys.some((one) => equal(one, key));
}
