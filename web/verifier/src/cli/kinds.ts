// The kinds of questions: what verifies each.

import { type ExpectedHead, parseHead } from "../heads.js";
import { NativeVerifier } from "../native.js";
import { ObservedVerifier } from "../observed.js";
import { checkObservedProof } from "../observed-proof.js";
import { checkTurnProof } from "../turn-proof.js";
import { parsePolicy } from "../tlog.js";
import type { Report } from "../report.js";
import { KINDS_OF_FORMATS } from "./kinds-formats.js";
import { type Question, Unsupported } from "./question.js";

type Kind = (question: Question) => Promise<Report>;

/** Kinds that read their files as streams. */
export const STREAMED: ReadonlySet<string> = new Set(["native", "observed"]);

export const KINDS: Readonly<Record<string, Kind>> = {
  native,
  observed,
  turn_proof: turnProof,
  observed_proof: (question) => checkObservedProof(wholeFile(question, "proof"), question.trust),
  ...KINDS_OF_FORMATS,
};

async function native(question: Question): Promise<Report> {
  const verifier = new NativeVerifier({
    trust: question.trust,
    bodies: question.open("bodies") ?? "absent",
    thread: question.thread,
    head: headOf(question),
    exact: question.exact,
  });
  for await (const part of fileOf(question, "record")) await verifier.push(part);
  return verifier.finish();
}

async function observed(question: Question): Promise<Report> {
  const verifier = new ObservedVerifier({ trust: question.trust, head: headOf(question), exact: question.exact });
  return verifier.verify(question.open("log"), fileOf(question, "seals"));
}

async function turnProof(question: Question): Promise<Report> {
  const file = question.files["policy"];
  const policy = file === undefined ? null : parsePolicy(file);
  if (file !== undefined && policy === null) throw new Unsupported("a policy that is none");
  return checkTurnProof(wholeFile(question, "proof"), { trust: question.trust, thread: question.thread, policy });
}

function wholeFile(question: Question, role: string): Uint8Array {
  const file = question.files[role];
  if (file === undefined) throw new Unsupported(`no file for the role ${role}`);
  return file;
}

function fileOf(question: Question, role: string): AsyncIterable<Uint8Array> {
  const file = question.open(role);
  if (file === null) throw new Unsupported(`no file for the role ${role}`);
  return file;
}

function headOf(question: Question): ExpectedHead | null {
  if (question.head === null) return null;
  const head = parseHead(question.head);
  if (head === null) throw new Unsupported("an expected head that is none");
  return head;
}
