// Changes of files, line by line.

import type { Change } from "../read/part.js";
import { type Row, rowsOf } from "../read/compared.js";
import { foreign, h } from "./dom.js";

const MAX_SHOWN = 4000;
const CONTEXT = 3;

export function changeView(change: Change): HTMLElement {
  const rows = "patch" in change ? rowsOf(change) : folded(rowsOf(change));
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
