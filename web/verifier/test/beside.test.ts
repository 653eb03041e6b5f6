// Seals beside a file (documents.md), of which the testkit has no vectors.

import { equal } from "node:assert/strict";
import { test } from "node:test";
import { base64Url, concat, hex, utf8 } from "../dist/bytes.js";
import { verifyBeside } from "../dist/document.js";
import { tagged } from "../dist/sha256.js";
import type { Trust } from "../dist/trust.js";
import { FIRST, taggedMessage, testKey } from "./signing.js";

test("a seal beside a file", async () => {
  const first = await testKey(1, FIRST);
  const trust: Trust = { entries: [{ name: "k", key: first.key, usages: ["native"] }], pins: [], now: 1_800_000_000 };
  const file = utf8("# threadseal:signed:quoted\n{}\n");
  const start = utf8(`threadseal:signed:1-shell-${"09".repeat(32)}-3-20260218T103000Z-${FIRST}-`);
  const content = tagged("threadseal/1 document beside", [file, start]);
  const signature = utf8(base64Url(await first.sign(taggedMessage("threadseal/1 document", [content]))).replace(/=+$/, ""));
  const seal = concat(start, signature, utf8("\n"));
  const options = { name: "a.sh", trust };
  const good = await verifyBeside(file, seal, "shell", options);
  equal(`${good.verdict} ${good.head ?? ""}`, `verified ${"09".repeat(32)}:3:${file.length}:${hex(content)}`);
  equal((await verifyBeside(file, concat(seal, utf8("\n")), "shell", options)).verdict, "malformed");
  equal((await verifyBeside(file, seal, "python", options)).verdict, "foreign");
  equal((await verifyBeside(utf8("other"), seal, "shell", options)).verdict, "tampered");
});
