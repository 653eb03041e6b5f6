// The kinds of questions about scrolls, documents, ledgers and Rye's transcripts.

import { kindOf, verifyBeside, verifyDocument } from "../document.js";
import { parseHead } from "../heads.js";
import { verifyLedger } from "../ledger.js";
import type { Report } from "../report.js";
import { isNativeManifest, verifyRye } from "../rye.js";
import { verifyScroll } from "../scroll.js";
import { type Question, Unsupported } from "./question.js";

type Kind = (question: Question) => Promise<Report>;

export const KINDS_T2: Readonly<Record<string, Kind>> = { scroll, document, ledger, rye };

function fileOf(question: Question, role: string): Uint8Array {
  const file = question.files[role];
  if (file === undefined) throw new Unsupported(`no file for the role ${role}`);
  return file;
}

/** What questions of all four kinds may have; a head that is none is no question. */
function common(question: Question): { trust: Question["trust"]; exact: boolean; head?: string } {
  const { trust, exact, head } = question;
  if (head === null) return { trust, exact };
  if (parseHead(head) === null) throw new Unsupported("an expected head that is none");
  return { trust, exact, head };
}

async function scroll(question: Question): Promise<Report> {
  return verifyScroll(fileOf(question, "scroll"), common(question));
}

async function document(question: Question): Promise<Report> {
  const file = fileOf(question, "document");
  const kind = kindOf(question.name, file);
  if (kind === null) throw new Unsupported("neither name nor content tells the kind of document");
  if (question.head?.startsWith("sha256:") === true) throw new Unsupported("a head of a document is bare or full");
  const thread = question.thread === null ? {} : { thread: question.thread };
  const options = { ...common(question), ...thread, name: question.name };
  const beside = question.files["seal"];
  return beside === undefined ? verifyDocument(file, kind, options) : verifyBeside(file, beside, kind, options);
}

async function ledger(question: Question): Promise<Report> {
  const run = runOf(question);
  const head = question.files["head"];
  return verifyLedger(fileOf(question, "ledger"), {
    ...common(question),
    ...(run === null ? {} : { run }),
    ...(head === undefined ? {} : { signedHead: head }),
  });
}

/** The run that was asked for, else the one that the file's name names (ledger.md §2, "Files"). */
function runOf(question: Question): string | null {
  if (question.thread !== null) return question.thread;
  return /(?:^|\/)ledger_([^/]+)\.jsonl$/.exec(question.name ?? "")?.[1] ?? null;
}

async function rye(question: Question): Promise<Report> {
  const file = fileOf(question, "record");
  if (isNativeManifest(file)) throw new Unsupported("line 1 is a native manifest");
  const thread = question.thread === null ? {} : { thread: question.thread };
  return verifyRye(file, { ...common(question), ...thread });
}
