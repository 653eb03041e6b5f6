// Verifies the records that a pull request touches, and reports them.
//
//   tip of the base ─► trust ──────────────┐
//   where both parted ─► heads of records ─┤
//   head ─► bytes of records ──────────────┴─► verdicts ─► summary, comment, exit code
//
// Bytes come from git alone, and no file of the head is run or trusted. There is no key here.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const MARK = "<!-- threadseal-report -->";
const MAX_FILE_BYTES = 1 << 30;
/** The most bytes of the table in a comment or a summary; the log of the job has all rows. */
const MAX_TABLE_BYTES = 48 << 10;
/** The most characters of a name or a finding in a table. */
const MAX_CELL_CHARS = 200;

const settings = process.env;
const linesOf = (text) => (text ?? "").split("\n").map((line) => line.trim()).filter((line) => line !== "");

function git(...args) {
  return execFileSync("git", args, { maxBuffer: MAX_FILE_BYTES, stdio: ["ignore", "pipe", "pipe"] });
}

/** The bytes of a file in a commit; nothing where it has no such file. */
function fileOf(commit, name) {
  // A name is a path here, whatever characters it has.
  const listed = git("--literal-pathspecs", "ls-tree", "-z", commit, "--", name).toString();
  const [, kind, object] = listed.match(/^\d+ (\w+) ([0-9a-f]+)\t/) ?? [];
  return kind === "blob" ? git("cat-file", "blob", object) : undefined;
}

/** Tip of the base, the commit where both parted, head and number of the pull request. */
function requestOf() {
  const event = JSON.parse(fs.readFileSync(settings.GITHUB_EVENT_PATH, "utf8"));
  const request = event.pull_request;
  if (request === undefined) throw new Error("the event is no pull request; hint: run this on pull_request");
  const head = request.head.sha;
  try {
    const base = git("merge-base", request.base.sha, head).toString().trim();
    return { tip: request.base.sha, base, head, number: request.number };
  } catch {
    throw new Error("the commits of the pull request are not here; hint: actions/checkout with fetch-depth: 0");
  }
}

/** Whose signatures count: keys, and files of the base as it is now. A branch of an earlier time must not bring trust
 * that was withdrawn since. */
function trustOf(tip) {
  return linesOf(settings.THREADSEAL_TRUST).map((line) => {
    if (/^([0-9a-f]{64}|did:key:\w+)$/.test(line)) return line;
    const bytes = fileOf(tip, line);
    if (bytes === undefined) throw new Error(`the base has no file ${line} with trust; hint: commit it first`);
    return { name: line, bytes };
  });
}

/** The files that differ, without the files beside records: these count as the record itself. */
function touched(base, head) {
  const names = git("diff", "--name-only", "--no-renames", "-z", base, head, "--", ...linesOf(settings.THREADSEAL_PATHS)).toString();
  const records = names.split("\0").filter((name) => name !== "").map((name) => {
    const record = name.replace(/\.(seal|head)$/, "").replace(/\.bodies$/, ".jsonl");
    return [base, head].some((commit) => fileOf(commit, record) !== undefined) ? record : name;
  });
  return [...new Set(records)].sort();
}

/** The report on a file in a commit; nothing where it is not there. */
async function reportOf({ verify }, commit, name, options) {
  const bytes = fileOf(commit, name);
  if (bytes === undefined) return undefined;
  const beside = {};
  for (const member of ["seal", "head"]) {
    const found = fileOf(commit, `${name}.${member}`);
    if (found !== undefined) beside[member] = found;
  }
  const bodies = name.endsWith(".jsonl") ? fileOf(commit, name.replace(/jsonl$/, "bodies")) : undefined;
  if (bodies !== undefined) beside.bodies = bodies;
  return verify(bytes, { name, ...beside, ...options });
}

/** Does anything claim to protect the file? */
function isRecord(report) {
  return report !== undefined && report.results.some(({ verdict, signers }) => verdict !== "unsigned" || signers.length > 0);
}

/** The row of a record; nothing for a file that is none. */
async function rowOf(core, { base, head, trust, accept }, name) {
  const before = await reportOf(core, base, name, { trust });
  const known = before?.results.find(({ verdict }) => verdict === "verified" || verdict === "unsigned_tail" || verdict === "open")?.head;
  // What the base has sealed, the head must contain.
  const after = await reportOf(core, head, name, { trust, ...(known ? { expectHead: known } : {}) });
  if (!isRecord(before) && !isRecord(after)) return undefined;
  if (after === undefined) return { name, verdict: "missing", why: "the base has this record", passes: false };
  if (isRecord(before) && !isRecord(after)) return { name, verdict: "tampered", why: "its seals are gone", passes: false };
  const { verdict, findings } = after.worst;
  const finding = findings.find(({ severity }) => severity === "error") ?? findings[0];
  const passes = after.errors.length === 0 && after.results.every((report) => report.verdict === "verified" || accept.includes(report.verdict));
  return { name, verdict, why: finding === undefined ? "" : `${finding.message} [${finding.code}]`, passes };
}

/** Signs that change what a reader sees around them. */
const HIDDEN = /[\x00-\x1f\x7f-\x9f\u061c\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Text of others inside a table of Markdown: no markup, no link, no mention, no line break. */
function plain(text) {
  const signs = [...text];
  const short = signs.length > MAX_CELL_CHARS ? `${signs.slice(0, MAX_CELL_CHARS).join("")}…` : text;
  return short.replace(HIDDEN, "\ufffd").replace(/[&<>"'`|*_~[\]()\\@#:!./=+$-]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** Text of others in the log of the job: in no line a command of the runner, and nothing hidden. */
function logged(text) {
  const spelled = (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(HIDDEN, spelled).replace(/#(?=#|\[)/g, spelled).replace(/:(?=:)/g, spelled);
}

/** The message of a command of the runner. */
function message(text) {
  return text.replace(/%/g, "%25").replace(/\r/g, "%0D").replace(/\n/g, "%0A");
}

function textOf(rows) {
  const bad = rows.filter(({ passes }) => !passes);
  const title = rows.length === 0 ? "No record was touched." : bad.length === 0 ? `${rows.length} records verified.` : `**${bad.length} of ${rows.length} records did not verify.**`;
  const table = [];
  let left = MAX_TABLE_BYTES;
  for (const { name, verdict, why, passes } of [...bad, ...rows.filter(({ passes }) => passes)]) {
    const row = `| ${passes ? "✓" : "✗"} | ${plain(name)} | ${verdict} | ${plain(why)} |`;
    left -= Buffer.byteLength(row) + 1;
    if (left < 0) break;
    table.push(row);
  }
  const rest = rows.length > table.length ? [`${rows.length - table.length} more are in the log of the job.`] : [];
  const head = table.length === 0 ? [] : ["| | record | verdict | finding |", "|---|---|---|---|"];
  return [MARK, `### ThreadSeal`, "", title, "", ...head, ...table, "", ...rest].join("\n");
}

async function ask(method, place, body) {
  const response = await fetch(`${settings.GITHUB_API_URL}/repos/${settings.GITHUB_REPOSITORY}/${place}`, {
    method, body: body === undefined ? null : JSON.stringify(body),
    headers: { authorization: `Bearer ${settings.THREADSEAL_TOKEN}`, accept: "application/vnd.github+json", "content-type": "application/json" },
  });
  if (!response.ok) throw new Error(`${method} ${place}: ${response.status}`);
  return response.json();
}

/** Writes the comment, or the earlier one anew. A request from a fork has no right to: that changes no verdict. */
async function comment(number, body, isNeeded) {
  try {
    for (let page = 1; ; page += 1) {
      const comments = await ask("GET", `issues/${number}/comments?per_page=100&page=${page}`);
      const own = comments.find((found) => found.body?.startsWith(MARK) && found.user?.type === "Bot");
      if (own !== undefined) return await ask("PATCH", `issues/comments/${own.id}`, { body });
      if (comments.length < 100) break;
    }
    // Where no record was touched there is nothing to read.
    if (isNeeded) await ask("POST", `issues/${number}/comments`, { body });
  } catch (error) {
    console.log(`::warning::${message(`the comment was not written: ${error.message}`)}`);
  }
}

async function main() {
  const core = await import(pathToFileURL(path.join(settings.THREADSEAL_PACKAGE, "dist/index.js")).href);
  const request = requestOf();
  const accept = (settings.THREADSEAL_ACCEPT ?? "").split(/\s+/);
  const asked = { ...request, trust: trustOf(request.tip), accept };
  const rows = [];
  for (const name of touched(request.base, request.head)) {
    const row = await rowOf(core, asked, name);
    if (row !== undefined) rows.push(row);
  }
  for (const { name, verdict, why, passes } of rows) console.log(`${passes ? "ok" : "NOT OK"}  ${verdict}  ${logged(name)}  ${why === "" ? "" : logged(why)}`);
  if (settings.GITHUB_STEP_SUMMARY) fs.appendFileSync(settings.GITHUB_STEP_SUMMARY, `${textOf(rows)}\n`);
  if (settings.THREADSEAL_COMMENT === "true") await comment(request.number, textOf(rows), rows.length > 0);
  return rows.every(({ passes }) => passes) ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.log(`::error::${message(error.message)}`);
  process.exitCode = 2;
}
