// The vectors of testkit/native, testkit/observed and testkit/proofs: verdicts, codes and trusted_until.

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
  readonly verdict: string;
  readonly codes: readonly string[];
  readonly trusted_until: unknown;
}

interface Index {
  readonly usage: string;
  readonly trust: readonly string[];
  readonly vectors: readonly Vector[];
}

for (const folder of ["native", "observed", "proofs"]) {
  listTest(`${folder}/index.json`, "every answer is as listed", async () => {
    const index = JSON.parse(readText(`${folder}/index.json`)) as Index;
    const wrong: string[] = [];
    for (const one of index.vectors) {
      const { usage = index.usage, trust = index.trust, ...options } = one.options ?? {};
      const files = Object.fromEntries(one.files.map(([role, file]) => [role, { path: `${TESTKIT}${folder}/${file}` }]));
      const keys = trust.map((key) => ({ key, usage }));
      const got = await answer(JSON.stringify({ ...options, id: 0, kind: one.kind, files, trust: keys, now: NOW }));
      const { verdict, codes, trusted_until } = one;
      // Both sides lose the same digits of a turn that no number of JavaScript holds.
      if (JSON.stringify(JSON.parse(got)) !== JSON.stringify({ id: 0, verdict, codes, trusted_until })) wrong.push(`${one.name}: ${got}`);
    }
    deepEqual(wrong, []);
  });
}
