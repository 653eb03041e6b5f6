// The file of bodies beside a native record with detached bodies (transcript.md §10, "Verifying").

import { ascii, hex } from "./bytes.js";
import { LineCutter, MAX_LINE_BYTES } from "./lines.js";
import { bodyFits, parseBodyLine } from "./native-lines.js";
import type { Report } from "./report.js";

/** A commitment in a line of the record. */
export interface Committed {
  /** Length that the line states. */
  readonly bytes: bigint;
  readonly line: number;
  /** Whether a good seal covers the line, and no `tail_adopted` names it. */
  judged: boolean;
  redacted: boolean;
  body: "none" | "fits" | "differs";
}

/** The parts of the file of bodies; `absent`: there is none; `unread`: there is no place to look for it. */
export type BodiesSource = AsyncIterable<Uint8Array> | "absent" | "unread";

/** Judges the bodies of a record without a failure; `redactions`: lines of the sealed `redacted` events. Whether the check `bodies` passes; null: skipped. */
export async function judgeBodies(
  report: Report,
  source: BodiesSource,
  record: Uint8Array,
  commitments: ReadonlyMap<string, Committed>,
  redactions: readonly number[],
): Promise<boolean | null> {
  for (const one of redactions) report.downgrade(null, "redacted", "note", { line: one });
  if (source === "unread") {
    report.downgrade("partial", "bodies_unread", "warning");
    return null;
  }
  if (source !== "absent") await readBodies(report, source, record, commitments);
  let good = true;
  let unfinished = false;
  for (const one of commitments.values()) {
    if (!one.judged) continue;
    if (one.redacted) {
      if (one.body !== "none") unfinished = true;
      continue;
    }
    if (one.body === "fits") continue;
    good = false;
    report.downgrade("tampered", one.body === "none" ? "body_missing" : "body_changed", "error", { line: one.line });
  }
  if (unfinished) report.downgrade(null, "redaction_unfinished", "warning");
  return good && !report.findings.some((one) => one.code === "bodies_malformed" || one.code === "bodies_foreign");
}

async function readBodies(
  report: Report,
  source: AsyncIterable<Uint8Array>,
  record: Uint8Array,
  commitments: ReadonlyMap<string, Committed>,
): Promise<void> {
  const cutter = new LineCutter(MAX_LINE_BYTES);
  const seen = new Set<string>();
  let number = 0;
  let malformed = 0;
  let foreign = false;
  /** Where the first line is none, no body of the file counts. */
  let headless = false;
  let unknown = false;
  for await (const part of source) {
    for (const { bytes } of cutter.cut(part)) {
      number++;
      if (number === 1) {
        const header = bytes === null ? null : parseHeader(bytes);
        if (header === null) malformed = 1;
        else foreign = header !== hex(record);
        headless = header === null;
      }
      if (number === 1 || headless) continue;
      const body = bytes === null ? null : parseBodyLine(bytes);
      if (body === null || seen.has(body.commitment)) {
        if (malformed === 0) malformed = number;
        continue;
      }
      seen.add(body.commitment);
      const one = commitments.get(body.commitment);
      if (one === undefined) {
        unknown = true;
        continue;
      }
      const fits = !foreign && BigInt(body.body.length) === one.bytes && bodyFits(record, body);
      one.body = fits ? "fits" : "differs";
    }
  }
  if (foreign) report.downgrade("tampered", "bodies_foreign", "error", { line: 1 });
  if (malformed > 0) report.downgrade("tampered", "bodies_malformed", "error", { line: malformed });
  if (cutter.rest() !== null) report.downgrade(null, "bodies_torn", "note");
  if (unknown) report.downgrade(null, "body_unknown", "note");
}

const HEADER = /^\{"format":"threadseal-bodies\/1","record":"([0-9a-f]{64})"\}$/;

/** The record that the first line of a file of bodies names, or null. */
function parseHeader(bytes: Uint8Array): string | null {
  return bytes.length > 256 ? null : (HEADER.exec(ascii(bytes))?.[1] ?? null);
}
