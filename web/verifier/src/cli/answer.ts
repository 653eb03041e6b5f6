// The protocol of questions and answers: one JSON object a line on standard input, one answer a line, in
// order. It is for comparing this verifier with another one.

import process from "node:process";
import { LineCutter } from "../lines.js";
import { answer } from "./respond.js";

const MAX_QUESTION_BYTES = 512 * 1024 * 1024;

async function main(): Promise<void> {
  const cutter = new LineCutter(MAX_QUESTION_BYTES);
  const decoder = new TextDecoder();
  const take = async (bytes: Uint8Array | null): Promise<void> => {
    if (bytes === null) throw new Error("a question that is too long");
    if (bytes.length > 0) process.stdout.write(`${await answer(decoder.decode(bytes))}\n`);
  };
  for await (const part of process.stdin) for (const line of cutter.cut(part)) await take(line.bytes);
  const rest = cutter.rest();
  if (rest !== null) await take(rest.bytes);
}

await main();
