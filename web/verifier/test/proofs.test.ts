// Proofs: the example of proofs.md ("An example"), made from testkit/transcripts/native/valid.jsonl, and
// proofs of observed lines made from the salted and the plain log there.

import { equal, ok } from "node:assert/strict";
import { base64, concat, hex, utf8 } from "../dist/bytes.js";
import { answer } from "../dist/cli/respond.js";
import { leafHash, rootOf, split } from "../dist/merkle.js";
import { Salts, parseSealHeader, saltedLeaf } from "../dist/observed-lines.js";
import { sha256 } from "../dist/sha256.js";
import { listTest, readBytes, readText } from "./vectors.js";

const LIST = "transcripts/native/";
const KEY = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
const OBSERVED_KEY = "ed4928c628d1c2c6eae90338905995612959273a5c63f93636c14614ac8737d1";
const NOW = 1_830_000_000;

interface Answer {
  verdict: string;
  codes: string[];
}

async function ask(kind: string, proof: Uint8Array, trust: unknown[], files: Record<string, unknown> = {}): Promise<Answer> {
  const question = { id: 1, kind, files: { proof: { base64: base64(proof) }, ...files }, trust, now: NOW };
  return JSON.parse(await answer(JSON.stringify(question))) as Answer;
}

const NATIVE = [{ key: KEY, usage: "native" }];
const OBSERVED = [{ key: OBSERVED_KEY, usage: "observed" }];

function example(): Uint8Array {
  const lines = readText(`${LIST}valid.jsonl`).split("\n");
  const line = (n: number): string => lines[n - 1]!;
  return utf8([
    "threadseal/1 proof of a turn", "turn 1", "first 2", `manifest ${line(1)}`,
    ...[2, 3, 4, 5, 6, 7].map((n) => `line ${line(n)}`),
    "hash vBSi7G/Ua3LqujVpyqc+oag5fHRymJSxJc1EXbBy0XI=",
    "hash CM5Gykk4MhpY9CjDc7y/mn5CtCWXyjxQNbgQsCi21P4=",
    "hash nSkn4sNjz3WFfJZTkSDubjZDSTZUmXzS1BL+xTAAuvE=",
    `seal ${line(13)}`, "",
  ].join("\n"));
}

listTest(`${LIST}expect.toml`, "the example of a proof of a turn", async () => {
  const proof = example();
  equal(proof.length, 4782);
  equal(hex(sha256(proof)), "a2ea949b13fbe89fe9c41570e1026fde1e9e65b91760e5eaec4fbdb811198f73");
  equal((await ask("turn_proof", proof, NATIVE)).verdict, "verified");
  equal((await ask("turn_proof", proof, [])).verdict, "unknown_signer");
  const body = utf8(`body {"commitment":"${"0".repeat(64)}","salt":"${"0".repeat(64)}","body":"x"}\n`);
  const foreign = await ask("turn_proof", concat(proof, body), NATIVE);
  equal(`${foreign.verdict} ${foreign.codes.join()}`, "tampered body_changed");
});

listTest(`${LIST}expect.toml`, "the log part of a proof of a turn", async () => {
  const entry = utf8('{"digest":"94e9be4fdb5aee46948d8d62988234103d1c500d6c117086b5c8a4ba650763be",'
    + '"record":"0101010101010101010101010101010101010101010101010101010101010101","seq":2,"size":5433,"type":"head/transcript"}');
  const leaf = leafHash(entry);
  const badLine = base64(concat(Uint8Array.of(0x9b, 0xe5, 0xd3, 0xc6), new Uint8Array(64)));
  const checkpoint = utf8(`example.com/log\n1\n${base64(leaf)}\n\n\u2014 example.com/log ${badLine}\n`);
  const part = concat(utf8("entry "), entry, utf8("\nc2sp.org/tlog-proof@v1\nindex 0\n\n"), checkpoint);
  equal((await ask("turn_proof", concat(example(), part), NATIVE)).verdict, "verified");
  const other = utf8(new TextDecoder().decode(part).replace('"size":5433', '"size":5434'));
  equal((await ask("turn_proof", concat(example(), other), NATIVE)).codes.join(), "anchor_bad");
  const policy = { base64: base64(readBytes("tlog/cosigned.policy")) };
  equal((await ask("turn_proof", example(), NATIVE, { policy })).codes.join(), "anchor_missing");
  equal((await ask("turn_proof", concat(example(), part), NATIVE, { policy })).verdict, "tampered");
});

/** The hashes of a range proof. */
function rangeProof(leaves: readonly Uint8Array[], from: number, to: number): Uint8Array[] {
  const walk = (begin: number, end: number): Uint8Array[] => {
    if (end <= from || to <= begin) return [rootOf(leaves.slice(begin, end))];
    if (end - begin === 1) return [];
    const middle = begin + Number(split(BigInt(end - begin)));
    return [...walk(begin, middle), ...walk(middle, end)];
  };
  return walk(0, leaves.length);
}

function observedProof(name: string, salted: boolean): string {
  const log = readText(`${LIST}${name}`).split("\n").filter((line) => line !== "");
  const seals = readText(`${LIST}${name}.seal`).split("\n");
  const header = parseSealHeader(utf8(seals[0]!))!;
  const salts = salted ? Salts.parse(utf8(seals[1]!), header)! : null;
  const leaves = log.map((line, i) => {
    const plain = leafHash(utf8(line));
    return salts === null ? plain : saltedLeaf(salts.salt(i)!, plain);
  });
  const seal = seals.find((line) => line.startsWith('{"seal"'))!;
  const text = ["threadseal/1 proof of observed lines", "label turn 1", `header ${seals[0]!}`, `seal ${seal}`,
    salted ? "shows 1" : "alone 1", "run 2 1", `line ${base64(utf8(log[1]!))}`];
  if (salts !== null) text.push(`salt ${hex(salts.salt(1)!)}`);
  return [...text, ...rangeProof(leaves, 1, 2).map((hash) => `hash ${base64(hash)}`), ""].join("\n");
}

listTest(`${LIST}expect.toml`, "proofs of observed lines", async () => {
  for (const [name, salted] of [["observed.jsonl", false], ["salted.jsonl", true]] as const) {
    const text = observedProof(name, salted);
    equal((await ask("observed_proof", utf8(text), OBSERVED)).verdict, "verified", name);
    equal((await ask("observed_proof", utf8(text), [])).verdict, "unknown_signer", name);
    equal((await ask("observed_proof", utf8(text.replace("alone 1", "alone").replace("shows 1", "shows 2")), OBSERVED)).verdict, "malformed");
    equal((await ask("observed_proof", utf8(text.replace("run 2 1", "run 1 1")), OBSERVED)).codes.join(), "content_changed");
  }
});

listTest(`${LIST}expect.toml`, "no changed byte makes a proof better", async () => {
  const proof = example();
  for (let i = 0; i < 300; i++) {
    const at = (i * 7919) % proof.length;
    const changed = proof.slice();
    changed[at] = changed[at]! ^ (1 + (i % 7));
    const got = await ask("turn_proof", changed, NATIVE);
    ok(got.verdict !== "verified", `byte ${at}: ${got.verdict}`);
  }
});

