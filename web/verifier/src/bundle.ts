// History bundles: ledgers of several runs in one JSON document (ledger.md §8).

import { type Json, ledgerLineAsSpelled, memberOf, readPython, textOf } from "./canon.js";
import { type LedgerOptions, type Rows, isRunId, verifyLedger } from "./ledger.js";
import { Report } from "./report.js";

export const MAX_BUNDLE_RUNS = 65_536;

/** The report of one ledger; `run` is null where the bundle cannot be read. */
export interface BundledReport {
  readonly run: string | null;
  readonly report: Report;
}

interface Bundle {
  readonly ledgers: readonly { readonly run: string; readonly rows: Rows }[];
  /** A name occurs twice in one object. */
  readonly repeated: boolean;
}

/** Judges the ledgers of a bundle, or that of the run that is asked for. */
export async function verifyBundle(b: Uint8Array, options: LedgerOptions): Promise<BundledReport[]> {
  const bundle = parseBundle(b);
  if (bundle === null) return [{ run: null, report: alone("malformed", "bundle_malformed") }];
  const asked = options.run;
  const reports: BundledReport[] = [];
  for (const { run, rows } of bundle.ledgers) {
    if (asked !== undefined && asked !== run) continue;
    const report = await verifyLedger(rows, { ...options, run });
    if (bundle.repeated) {
      report.downgrade("tampered", "name_repeated", "error");
      report.head = report.trusted_until = null;
      report.completeness = "unproved";
    }
    reports.push({ run, report });
  }
  if (reports.length > 0 || asked === undefined) return reports;
  return [{ run: asked, report: alone("missing", "ledger_missing") }];
}

function alone(verdict: "malformed" | "missing", code: string): Report {
  const report = new Report("ledger", "abstractruntime");
  report.downgrade(verdict, code, "error");
  return report;
}

/** Rule 1 of ledger.md §8; null where the bundle is malformed. */
function parseBundle(b: Uint8Array): Bundle | null {
  const reading = readPython(b);
  if (!reading.ok) return null;
  const get = (name: string): Json | null => memberOf(reading.value, name);
  const version = get("version");
  if (version?.kind !== "number" || version.text !== "1" || runIdOf(textOf(get("root_run_id"))) === null) return null;
  const named = get("ledgers");
  if (named?.kind !== "object" || named.members.length === 0 || named.members.length > MAX_BUNDLE_RUNS) return null;
  const isReplay = textOf(get("detail")) === "replay";
  const ledgers: { run: string; rows: Rows }[] = [];
  for (const { name, value } of named.members) {
    const run = runIdOf(name);
    const rows = run === null ? null : rowsOf(run, value, isReplay);
    if (run === null || rows === null) return null;
    ledgers.push({ run, rows });
  }
  return { ledgers, repeated: reading.irregular.some((one) => one.kind === "duplicate_key") };
}

function rowsOf(run: string, ledger: Json, isReplay: boolean): Rows | null {
  const named = memberOf(ledger, "run_id");
  const total = indexOf(memberOf(ledger, "total"));
  const start = indexOf(memberOf(ledger, "cursor_start"));
  const items = memberOf(ledger, "items");
  if (named !== null && textOf(named) !== run) return null;
  if (total === null || start === null || items?.kind !== "array") return null;
  const first = Math.max(start, 1) - 1;
  const rows: Uint8Array[] = [];
  for (const item of items.items) {
    const record = memberOf(item, "record");
    if (indexOf(memberOf(item, "cursor")) !== first + rows.length + 1 || record?.kind !== "object") return null;
    rows.push(ledgerLineAsSpelled(record));
  }
  if (rows.length > 0 && first + rows.length > total) return null;
  const isWhole = first === 0 && rows.length === total;
  return { rows, first, view: isReplay ? "replay" : isWhole ? "whole" : "window" };
}

/** An integer from 0 to 2^53 - 1, or null. */
function indexOf(value: Json | null): number | null {
  if (value?.kind !== "number" || !/^(?:0|-0|[1-9][0-9]{0,15})$/.test(value.text)) return null;
  const index = Math.abs(Number(value.text));
  return Number.isSafeInteger(index) ? index : null;
}

/** A run id; a text with a lone surrogate is none. */
function runIdOf(text: string | null): string | null {
  return isRunId(text) && !/\p{Surrogate}/u.test(text) ? text : null;
}
