// testkit/ledger: chains and attacks; and that no changed byte makes a ledger better.

import { deepEqual, ok } from "node:assert/strict";
import { type Verdict, exitOf } from "../dist/report.js";
import { type LedgerOptions, verifyLedger } from "../dist/ledger.js";
import { type Entry, flagOf, readList, testkit, textOf, listTest } from "./lists.js";

function optionsOf(entry: Entry): LedgerOptions {
  const head = flagOf(entry, "--expect-head");
  const run = flagOf(entry, "--run");
  return {
    trust: { entries: [], pins: [], now: 1_800_000_000 },
    ...(head === undefined ? {} : { head }),
    ...(run === undefined ? {} : { run }),
  };
}

const LIST = readList("ledger/expect.toml").entries;

listTest("ledger/expect.toml", "expect.toml", async () => {
  const wrong: string[] = [];
  for (const entry of LIST) {
    const file = textOf(entry, "file")!;
    const report = await verifyLedger(testkit(`ledger/${file}`), optionsOf(entry));
    ok(report.verdict !== "verified" || report.checks.every((check) => check.result !== "fail"), file);
    const finding = textOf(entry, "finding");
    const told = finding === undefined || report.codes().includes(finding);
    const good = report.verdict === entry["verdict"] && told;
    if (!good) wrong.push(`${file}: ${report.verdict} (${report.codes().join(" ")}) for ${String(entry["verdict"])} ${String(entry["finding"])}`);
  }
  deepEqual(wrong, []);
});

/** By exit codes: a change may turn one kind of evidence into another. */
function isBetter(verdict: Verdict, original: Verdict): boolean {
  const goodness = (one: Verdict): number => [1, 3, 0].indexOf(exitOf(one));
  return goodness(verdict) > goodness(original);
}

listTest("ledger/expect.toml", "no changed byte makes a ledger better", async () => {
  const better: string[] = [];
  for (const entry of LIST) {
    const file = textOf(entry, "file")!;
    const bytes = testkit(`ledger/${file}`);
    const options = optionsOf(entry);
    const original = (await verifyLedger(bytes, options)).verdict;
    const step = Math.max(1, Math.floor(bytes.length / 100));
    for (let at = 0; at < bytes.length; at += step) {
      const changed = bytes.slice();
      changed[at] = changed[at]! ^ (1 << at % 7);
      const { verdict } = await verifyLedger(changed, options);
      if (isBetter(verdict, original)) better.push(`${file} at ${at}: ${original} became ${verdict}`);
    }
  }
  deepEqual(better, []);
});
