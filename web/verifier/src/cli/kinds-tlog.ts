// The kinds of questions about notes, checkpoints and proofs of logs: a word is answered.

import { checkInclusionFile, judgeByPolicy, judgeRequest, parseLastTree, parseLogCheckpoint, parseLogKey, parsePolicy } from "../tlog.js";
import { parseVkey, verifyNote, vkey } from "../note.js";
import { type Question, type Short, Unsupported } from "./question.js";

export const SHORT_KINDS: Readonly<Record<string, (question: Question) => Promise<Short>>> = {
  note,
  checkpoint,
  inclusion,
  consistency,
};

function fileOf(question: Question, role: string): Uint8Array {
  const file = question.files[role];
  if (file === undefined) throw new Unsupported(`no file for the role ${role}`);
  return file;
}

function keysOf<T>(question: Question, parse: (text: string) => T | null): T[] {
  return question.keys.map((text) => {
    const key = parse(text);
    if (key === null) throw new Unsupported("a verifier key that is none, or of a type that is not built in");
    return key;
  });
}

async function note(question: Question): Promise<Short> {
  const found = await verifyNote(fileOf(question, "note"), keysOf(question, parseVkey));
  return found.answer === "verified" ? { answer: "verified", signers: found.signers.map(vkey) } : { answer: found.answer };
}

async function checkpoint(question: Question): Promise<Short> {
  const policy = parsePolicy(fileOf(question, "policy"));
  if (policy === null) return { answer: "policy_refused" };
  const read = parseLogCheckpoint(fileOf(question, "note"));
  if (read === null) return { answer: "bad" };
  const found = await judgeByPolicy(read, policy);
  switch (found.answer) {
    case "met":
      return { answer: "witnessed", at: found.at.toString() };
    case "log alone":
      return { answer: "log_alone" };
    case "not met":
      return { answer: "not_met" };
    case "bad line":
      return { answer: "bad" };
  }
}

async function inclusion(question: Question): Promise<Short> {
  return { answer: checkInclusionFile(fileOf(question, "proof"), fileOf(question, "entry")) };
}

async function consistency(question: Question): Promise<Short> {
  const file = question.files["last"];
  const last = file === undefined ? null : parseLastTree(file);
  if (file !== undefined && last === null) throw new Unsupported("a last tree that is none");
  const found = await judgeRequest(fileOf(question, "request"), keysOf(question, parseLogKey), last);
  return { answer: String(found.status), ...(found.status === 409 ? { size: found.size.toString() } : {}) };
}
