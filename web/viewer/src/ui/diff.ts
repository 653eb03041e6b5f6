// Changes of files, line by line.

import type { Change } from "../read/part.js";
import { foreign, h } from "./dom.js";

/** Of more lines than this the two sides are shown one after the other. */
const MAX_COMPARED = 2000;
const MAX_SHOWN = 4000;
const CONTEXT = 3;

type Row = readonly [" " | "+" | "-" | "@", string];

export function changeView(change: Change): HTMLElement {
  const rows = "patch" in change ? patchRows(change.patch) : folded(compared(change.before, change.after));
  const added = rows.filter(([mark]) => mark === "+").length;
  const removed = rows.filter(([mark]) => mark === "-").length;
  const head = h("div", { class: "diff-head" },
    change.path === "" ? h("span", { text: "patch" }) : foreign(change.path, { class: "path" }),
    h("span", { class: "plus", text: `+${added}` }), h("span", { class: "minus", text: `−${removed}` }));
  return h("figure", { class: "diff" }, head, diffBody(rows));
}

export function diffBody(rows: readonly Row[]): HTMLElement {
  const body = h("div", { class: "diff-body", dir: "ltr", tabindex: 0, role: "region", "aria-label": "Changed lines" });
  for (const [mark, line] of rows.slice(0, MAX_SHOWN)) {
    const kind = mark === "+" ? "added" : mark === "-" ? "removed" : mark === "@" ? "hunk" : "same";
    const word = mark === "+" ? "added: " : mark === "-" ? "removed: " : "";
    body.appendChild(h("div", { class: `line ${kind}` }, h("span", { class: "mark", "aria-hidden": "true", text: mark === "-" ? "−" : mark }), word === "" ? null : h("span", { class: "hidden", text: word }), h("span", { class: "words", text: line === "" ? " " : line })));
  }
  if (rows.length > MAX_SHOWN) body.appendChild(h("div", { class: "line hunk", text: `${rows.length - MAX_SHOWN} more lines` }));
  return body;
}

function patchRows(patch: string): Row[] {
  return patch.split("\n").filter((line) => !/^(\*\*\* (Begin|End) Patch|\\ No newline)/.test(line)).map((line): Row => {
    if (/^(@@|\*\*\*|---|\+\+\+|diff |index )/.test(line)) return ["@", line];
    if (line.startsWith("+")) return ["+", line.slice(1)];
    if (line.startsWith("-")) return ["-", line.slice(1)];
    return [" ", line.startsWith(" ") ? line.slice(1) : line];
  });
}

/** The longest common lines of both sides stay. */
export function compared(before: string, after: string): Row[] {
  const a = before === "" ? [] : before.split("\n");
  const b = after === "" ? [] : after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const rows: Row[] = a.slice(0, start).map((line): Row => [" ", line]);
  rows.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)));
  rows.push(...a.slice(a.length - end).map((line): Row => [" ", line]));
  return rows;
}

function middle(a: readonly string[], b: readonly string[]): Row[] {
  if (a.length * b.length > MAX_COMPARED * MAX_COMPARED || a.length === 0 || b.length === 0) {
    return [...a.map((line): Row => ["-", line]), ...b.map((line): Row => ["+", line])];
  }
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1]! + 1 : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const rows: Row[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      rows.push([" ", a[i++]!]);
      j++;
    } else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) rows.push(["-", a[i++]!]);
    else rows.push(["+", b[j++]!]);
  }
  while (i < a.length) rows.push(["-", a[i++]!]);
  while (j < b.length) rows.push(["+", b[j++]!]);
  return rows;
}

/** Without the lines that are far from a change. */
function folded(rows: readonly Row[]): Row[] {
  const near = new Uint8Array(rows.length);
  rows.forEach(([mark], at) => {
    if (mark !== " ") near.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const kept: Row[] = [];
  let hidden = 0;
  rows.forEach((row, at) => {
    if (near[at] === 1) {
      if (hidden > 0) kept.push(["@", `${hidden} unchanged lines`]);
      hidden = 0;
      kept.push(row);
    } else hidden++;
  });
  if (hidden > 0) kept.push(["@", `${hidden} unchanged lines`]);
  return kept;
}
