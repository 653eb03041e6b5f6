// Words of a session, set for reading: paragraphs, code, lists and headings of Markdown, as elements with text. No link is
// made and no HTML is read, since the words are foreign.

import { h } from "./dom.js";

/** Longer words are shown as they are. */
const MAX_PROSE = 200_000;

export function prose(words: string): HTMLElement {
  const box = h("div", { class: "prose", dir: "auto" });
  if (words.length > MAX_PROSE) {
    box.appendChild(h("pre", { class: "plain", text: words }));
    return box;
  }
  const lines = words.replace(/\r\n?/g, "\n").split("\n");
  for (let at = 0; at < lines.length;) at = block(lines, at, box);
  return box;
}

/** Sets one block; gives the line after it. */
function block(lines: readonly string[], at: number, box: HTMLElement): number {
  const line = lines[at]!;
  const fence = /^\s*(```+|~~~+)\s*([\w+-]*)/.exec(line);
  if (fence !== null) return fenced(lines, at, fence[1]!, fence[2]!, box);
  if (line.trim() === "") return at + 1;
  if (/^\s*(-{3,}|\*{3,}|_{3,})\s*$/.test(line)) {
    box.appendChild(h("hr"));
    return at + 1;
  }
  const heading = /^(#{1,6})\s+(.*)$/.exec(line);
  if (heading !== null) {
    box.appendChild(inline(h("p", { class: `heading heading-${Math.min(heading[1]!.length, 3)}` }), heading[2]!));
    return at + 1;
  }
  if (/^\s*([-*+]|\d{1,3}[.)])\s+/.test(line)) return list(lines, at, box);
  if (/^\s*\|.*\|\s*$/.test(line)) return table(lines, at, box);
  if (/^>\s?/.test(line)) {
    const quoted = h("blockquote", { dir: "auto" });
    while (at < lines.length && /^>\s?/.test(lines[at]!)) inline(quoted.appendChild(h("p")), lines[at++]!.replace(/^>\s?/, ""));
    box.appendChild(quoted);
    return at;
  }
  const paragraph = h("p", { dir: "auto" });
  for (let first = true; at < lines.length && lines[at]!.trim() !== "" && (first || !/^(\s*(```|~~~|[-*+]\s|\d{1,3}[.)]\s|-{3,}\s*$)|#{1,6}\s|>)/.test(lines[at]!)); at++, first = false) {
    if (!first) paragraph.appendChild(h("br"));
    inline(paragraph, lines[at]!);
  }
  box.appendChild(paragraph);
  return at;
}

function fenced(lines: readonly string[], at: number, fence: string, language: string, box: HTMLElement): number {
  const code: string[] = [];
  let end = at + 1;
  while (end < lines.length && !lines[end]!.trim().startsWith(fence)) code.push(lines[end++]!);
  box.appendChild(h("pre", { class: "code", dir: "ltr", "data-language": language || undefined }, h("code", { text: code.join("\n") })));
  return end + 1;
}

function list(lines: readonly string[], at: number, box: HTMLElement): number {
  const ordered = /^\s*\d/.test(lines[at]!);
  const items = h(ordered ? "ol" : "ul");
  while (at < lines.length) {
    const found = /^(\s*)([-*+]|\d{1,3}[.)])\s+(.*)$/.exec(lines[at]!);
    if (found === null) {
      if (lines[at]!.trim() !== "" && /^\s{2,}/.test(lines[at]!) && items.lastElementChild !== null) {
        items.lastElementChild.appendChild(h("br"));
        inline(items.lastElementChild as HTMLElement, lines[at]!.trim());
        at++;
        continue;
      }
      break;
    }
    const depth = Math.min(Math.floor(found[1]!.length / 2), 4);
    items.appendChild(inline(h("li", { class: depth > 0 ? `deep-${depth}` : undefined, dir: "auto" }), found[3]!));
    at++;
  }
  box.appendChild(items);
  return at;
}

function table(lines: readonly string[], at: number, box: HTMLElement): number {
  const rows = h("tbody");
  for (; at < lines.length && /^\s*\|.*\|\s*$/.test(lines[at]!); at++) {
    if (/^\s*\|[\s:|-]+\|\s*$/.test(lines[at]!)) continue;
    const cells = lines[at]!.trim().slice(1, -1).split("|");
    rows.appendChild(h("tr", {}, ...cells.map((cell) => inline(h("td", { dir: "auto" }), cell.trim()))));
  }
  box.appendChild(h("div", { class: "table-box" }, h("table", {}, rows)));
  return at;
}

/** Code, stress and the words of links in a line. */
function inline<E extends HTMLElement>(parent: E, words: string): E {
  const marks = /(`+)([^`]+)\1|\*\*([^*\n]+)\*\*|\[([^\]\n]+)\]\(([^()\s]+)\)/g;
  let at = 0;
  for (let found = marks.exec(words); found !== null; found = marks.exec(words)) {
    if (found.index > at) parent.appendChild(document.createTextNode(words.slice(at, found.index)));
    if (found[2] !== undefined) parent.appendChild(h("code", { text: found[2] }));
    else if (found[3] !== undefined) parent.appendChild(h("strong", { text: found[3] }));
    // The address stays to be read, and leads nowhere.
    else parent.append(found[4]!, found[4] === found[5] ? "" : h("span", { class: "quiet", text: ` (${found[5]!})` }));
    at = found.index + found[0].length;
  }
  if (at < words.length) parent.appendChild(document.createTextNode(words.slice(at)));
  return parent;
}
