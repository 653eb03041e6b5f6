// The kinds of questions about scrolls, documents, ledgers and Rye's transcripts.

import { type Item, type Profile, kindOf, verifyBeside, verifyDocument } from "../document.js";
import { type BundledReport, verifyBundle } from "../bundle.js";
import { parseHead } from "../heads.js";
import { verifyLedger } from "../ledger.js";
import type { Report } from "../report.js";
import { isNativeManifest, verifyRye } from "../rye.js";
import { verifyScroll } from "../scroll.js";
import { type Question, Unsupported } from "./question.js";

type Kind = (question: Question) => Promise<Report>;

export const KINDS_OF_FORMATS: Readonly<Record<string, Kind>> = { scroll, document, ledger, rye };

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
  const { length, oldest, strictDigits, profile } = question;
  return verifyScroll(fileOf(question, "scroll"), {
    ...common(question),
    ...(length === null ? {} : { length }),
    ...(oldest === null ? {} : { oldest }),
    strictDigits,
    v01: profile === "scroll-v0.1",
  });
}

async function document(question: Question): Promise<Report> {
  const file = fileOf(question, "document");
  const kind = kindOf(question.name, file);
  if (kind === null) throw new Unsupported("neither name nor content tells the kind of document");
  const thread = question.thread === null ? {} : { thread: question.thread };
  const profile = oneOf(PROFILES, question.profile, "a profile that is none");
  const item = oneOf(ITEMS, question.item, "a type of items that is none");
  const options = {
    ...common(question),
    ...thread,
    ...(profile === null ? {} : { profile }),
    ...(item === null ? {} : { item }),
    name: question.name,
  };
  const beside = question.files["seal"];
  return beside === undefined ? verifyDocument(file, kind, options) : verifyBeside(file, beside, kind, options);
}

const PROFILES: readonly Profile[] = ["auto", "native", "rye"];
const ITEMS: readonly Item[] = ["directive", "knowledge", "tool", "config"];

function oneOf<T extends string>(known: readonly T[], given: string | null, why: string): T | null {
  if (given === null) return null;
  const found = known.find((one) => one === given);
  if (found === undefined) throw new Unsupported(why);
  return found;
}

async function ledger(question: Question): Promise<Report> {
  const run = runOf(question);
  const head = question.files["head"];
  return verifyLedger(fileOf(question, "ledger"), {
    ...common(question),
    ...(run === null ? {} : { run }),
    ...(question.length === null ? {} : { length: question.length }),
    ...(head === undefined ? {} : { signedHead: head }),
  });
}

/** A bundle has a report for each of its ledgers. */
export async function bundle(question: Question): Promise<BundledReport[]> {
  return verifyBundle(fileOf(question, "bundle"), {
    ...common(question),
    ...(question.thread === null ? {} : { run: question.thread }),
    ...(question.length === null ? {} : { length: question.length }),
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
