// The vectors of each folder with an index.json: every member of the answer.

import { deepEqual } from "node:assert/strict";
import { answer } from "../dist/cli/respond.js";
import { TESTKIT, listTest, readText } from "./vectors.js";

/** A moment from 2027 on. */
const NOW = 1_800_000_000;

interface Vector {
  readonly name: string;
  readonly kind: string;
  readonly files: readonly (readonly [role: string, file: string])[];
  readonly options?: { readonly usage?: string; readonly trust?: readonly string[] };
}

/** What a vector has beside its answer. */
const ASKED = ["name", "kind", "files", "options", "rule"];
const FOLDERS = ["native", "observed", "proofs", "rules/scroll", "rules/ledger", "rules/bundle", "rules/documents", "rules/tlog"];

interface Index {
  readonly usage: string;
  readonly trust: readonly string[];
  readonly vectors: readonly Vector[];
}

for (const folder of FOLDERS) {
  listTest(`${folder}/index.json`, "every answer is as listed", async () => {
    const index = JSON.parse(readText(`${folder}/index.json`)) as Index;
    const wrong: string[] = [];
    for (const one of index.vectors) {
      const { usage = index.usage, trust = index.trust, ...options } = one.options ?? {};
      const files = Object.fromEntries(one.files.map(([role, file]) => [role, { path: `${TESTKIT}${folder}/${file}` }]));
      const keys = trust.map((key) => trusted(key, usage));
      const got = await answer(JSON.stringify({ ...options, id: 0, kind: one.kind, files, trust: keys, now: NOW }));
      // Both sides lose the same digits of a turn that no number of JavaScript holds.
      const answered = JSON.parse(got) as Record<string, unknown>;
      const listed = Object.entries(one).filter(([name]) => !ASKED.includes(name));
      if (JSON.stringify(answered) !== JSON.stringify({ id: 0, ...Object.fromEntries(listed) })) wrong.push(`${one.name}: ${got}`);
    }
    deepEqual(wrong, []);
  });
}

/** A key in hex, of this usage or of the one that is before a colon. */
function trusted(named: string, usage: string): { key: string; usage: string } {
  const at = named.indexOf(":");
  return { key: named.slice(at + 1), usage: at < 0 ? usage : named.slice(0, at) };
}
