// One item of a conversation as a row.

import { fold, placesOf } from "../fold.js";
import type { OpenLog, Standing } from "../open-log.js";
import type { SealMark } from "../read/seals.js";
import type { Full, Item } from "../read/session.js";
import { type Icon, button, foreign, h, icon, visible } from "./dom.js";
import { callView, eventView, holeView, proseView, rawView } from "./content.js";
import { bytes, clock, iso, short, when } from "./format.js";
import { prose } from "./prose.js";
import { codeText, nameOf } from "./verdict.js";

export interface RowState {
  readonly isOpen: boolean;
  readonly isRaw: boolean;
  /** What was asked for of this item; null until it is here. */
  readonly full: Full | null;
  readonly at: number;
  readonly total: number;
  /** What the last action on this row answered. */
  readonly answer: string | null;
  readonly words: string;
  readonly link: string;
}

export interface RowActions {
  open(i: number): void;
  raw(i: number): void;
  prove(i: number): void;
  copyLink(i: number): void;
  agent(i: number): void;
}

/** Characters of a summary; a cut one ends with a mark. */
const MAX_SUMMARY = 240;
/** Up to this length words come without a click. */
export const MAX_AUTO_TEXT = 4000;

const ROLES: { readonly [kind: string]: string } = {
  user: "User", assistant: "Agent", reasoning: "Reasoning", system: "Context", compaction: "Compaction", hook: "Hook", event: "Event", hole: "Redacted", damaged: "Unreadable line",
};

const STANDINGS: Readonly<Record<Standing, string>> = {
  sealed: "sealed and unchanged", unknown: "sealed by a key that is not trusted here", unsealed: "not sealed", changed: "changed after it was sealed",
  doubted: "in a changed record, where nothing vouches for it", redacted: "redacted", pending: "being verified", none: "no seal covers it",
};

export function standingText(standing: Standing): string {
  return STANDINGS[standing];
}

export function itemRow(item: Item, log: OpenLog, state: RowState, actions: RowActions): HTMLElement {
  const standing = log.standing(item);
  const row = h("article", {
    class: `item item-${item.kind}${state.isOpen ? " open" : ""}${item.ok === false ? " failed" : ""}`, "data-i": item.i, "data-standing": standing, tabindex: -1,
    "aria-posinset": state.at + 1, "aria-setsize": state.total, "aria-label": labelOf(item, log, standing),
  });
  row.appendChild(h("div", { class: "stripe", title: STANDINGS[standing] }));
  const body = h("div", { class: "item-body" });
  if (standing === "changed") body.appendChild(h("p", { class: "mark-changed" }, icon("cross"), `${codeText(log.findingAt(item) ?? "content_changed")}.`));
  body.appendChild(isFolded(item) ? foldedHead(item, log, state, actions) : spokenHead(item, log, state, actions));
  if (state.answer !== null) body.appendChild(h("p", { class: "flash", text: state.answer }));
  const content = contentOf(item, state, actions);
  if (content !== null) body.appendChild(content);
  if (state.isRaw && state.full !== null) body.appendChild(rawView(state.full));
  row.appendChild(body);
  if (state.words !== "") highlight(body, state.words);
  return row;
}

function isFolded(item: Item): boolean {
  return item.kind !== "user" && item.kind !== "assistant";
}

function labelOf(item: Item, log: OpenLog, standing: Standing): string {
  const name = item.kind === "tool" ? `Tool call ${item.name}` : ROLES[item.kind] ?? item.kind;
  return `${visible(name)}, ${log.turns.words(item)}, ${STANDINGS[standing]}`;
}

function spokenHead(item: Item, log: OpenLog, state: RowState, actions: RowActions): HTMLElement {
  return h("header", { class: "item-head" },
    h("span", { class: "role", text: ROLES[item.kind] ?? item.kind }),
    item.model === null ? null : foreign(item.model, { class: "model" }),
    tokensOf(item), actionsOf(item, log, state, actions));
}

function timeOf(item: Item, log: OpenLog): HTMLElement | null {
  if (item.time === null) return null;
  // Lines keep their order in the file, whatever time they state.
  const isLate = log.isLate(item);
  return h("time", { datetime: iso(item.time), title: `${when(item.time)}${isLate ? "; the file has it after later lines" : ""}`, text: `${isLate ? "written later, " : ""}${clock(item.time)}` });
}

function tokensOf(item: Item): HTMLElement | null {
  if (item.tokens === null) return null;
  const { input, cached, output } = item.tokens;
  return h("span", { class: "tokens", title: `${input.toLocaleString("en")} tokens in, ${cached.toLocaleString("en")} cached, ${output.toLocaleString("en")} out`, text: `${short(input + cached)} in · ${short(output)} out` });
}

function actionsOf(item: Item, log: OpenLog, state: RowState, actions: RowActions): HTMLElement {
  const place = log.turns.words(item);
  return h("span", { class: "item-side" }, h("span", { class: "item-actions" },
    button(`Copy a link to ${place}`, { class: "icon-button", "data-focus": "link", on: { click: () => actions.copyLink(item.i) } }, icon("link"), h("span", { text: "Link" })),
    button(`Download a proof of ${place}`, { class: "icon-button", "data-focus": "proof", on: { click: () => actions.prove(item.i) } }, icon("proof"), h("span", { text: "Proof" })),
    button("The line as it is in the file", { class: "icon-button", "data-focus": "raw", "aria-pressed": String(state.isRaw), on: { click: () => actions.raw(item.i) } }, icon("info"))),
    timeOf(item, log), h("a", { class: "turn-number", href: state.link, text: place }));
}

const TOOL_ICONS: readonly (readonly [RegExp, Icon])[] = [
  [/bash|shell|exec|terminal|command/i, "terminal"], [/edit|write|patch|replace/i, "edit"], [/read|cat|view|notebook/i, "file"], [/grep|glob|search|find|ls/i, "search"],
  [/task|agent|spawn/i, "agent"], [/web|fetch|http|browser/i, "web"],
];

function iconOf(item: Item): Icon {
  if (item.kind === "tool") return TOOL_ICONS.find(([names]) => names.test(item.name))?.[1] ?? "tool";
  const known: { readonly [kind: string]: Icon } = { reasoning: "thought", compaction: "fold", hook: "hook", hole: "dash", damaged: "warn" };
  return known[item.kind] ?? "info";
}

function foldedHead(item: Item, log: OpenLog, state: RowState, actions: RowActions): HTMLElement {
  const name = item.kind === "tool" ? item.name : ROLES[item.kind] ?? item.kind;
  const more = item.kind === "tool" || item.kind === "reasoning" ? "" : item.name;
  const toggle = h("button", { type: "button", class: "fold", "aria-expanded": String(state.isOpen), "data-focus": "fold", on: { click: () => actions.open(item.i) } },
    icon(iconOf(item)), foreign(name, { class: "tool-name" }),
    h("span", { class: "summary", dir: "auto", text: visible(summaryOf(item, more)) }), ...outcomeOf(item));
  return h("header", { class: "item-head" }, toggle, actionsOf(item, log, state, actions));
}

function summaryOf(item: Item, more: string): string {
  if (item.kind === "hole") return holeText(item);
  const whole = item.text.replace(/\s+/g, " ").trim();
  const words = whole.length >= MAX_SUMMARY ? `${whole.slice(0, MAX_SUMMARY - 1).replace(/\s\S{0,30}$/, "")} …` : whole;
  if (item.kind === "reasoning") return words.replace(/\*\*/g, "") || item.name;
  return [more, words].filter((one) => one !== "").join(" · ");
}

function holeText(item: Item): string {
  if (item.name === "redacted") return item.text === "" ? "The text was deleted for good; its place and its digest stay sealed." : item.text;
  return `${item.name}${item.text === "" ? "" : `: ${item.text}`}`;
}

function outcomeOf(item: Item): HTMLElement[] {
  const marks: HTMLElement[] = [];
  if (item.added > 0) marks.push(h("span", { class: "plus", text: `+${item.added}` }));
  if (item.removed > 0) marks.push(h("span", { class: "minus", text: `−${item.removed}` }));
  if (item.images > 0) marks.push(h("span", { class: "size", text: item.images === 1 ? "1 image" : `${item.images} images` }));
  if (item.kind === "tool") {
    if (item.ok === false) marks.push(h("span", { class: "outcome bad", text: "failed" }));
    else if (item.ok === true) marks.push(h("span", { class: "size", text: bytes(item.resultLength) }));
    else marks.push(h("span", { class: "outcome waiting", text: "no result" }));
  } else if (item.length > 240) marks.push(h("span", { class: "size", text: bytes(item.length) }));
  return marks;
}

function contentOf(item: Item, state: RowState, actions: RowActions): HTMLElement | null {
  if (!isFolded(item)) {
    const context = contextView(item, state.full);
    if (state.full !== null) return h("div", {}, proseView(state.full.part), context);
    const box = h("div", {}, prose(item.text), context);
    if (item.length > MAX_AUTO_TEXT) box.appendChild(button(`Show all ${bytes(item.length)}`, { class: "more", "data-focus": "more", on: { click: () => actions.open(item.i) } }));
    else if (item.images > 0 && state.full === null) box.appendChild(button(item.images === 1 ? "Show the image" : `Show ${item.images} images`, { class: "more", "data-focus": "more", on: { click: () => actions.open(item.i) } }));
    return box;
  }
  const link = item.agent === null ? null : button("Open the subagent's own page", { class: "agent-link", "data-focus": "agent", on: { click: () => actions.agent(item.i) } }, icon("agent"), h("span", { text: "Open the subagent" }));
  if (!state.isOpen) return link;
  if (state.full === null) return h("p", { class: "quiet", text: "Reading…" });
  const { part } = state.full;
  const isWords = item.kind === "reasoning" || item.kind === "compaction";
  const view = item.kind === "tool" ? callView(state.full) : isWords ? (part.text === "" ? h("p", { class: "quiet", text: "The provider encrypted it, so the log has no text." }) : prose(part.text)) : item.kind === "hole" ? holeView(part) : eventView(part);
  if (link !== null) view.appendChild(link);
  return view;
}

/** What the program put before the words of a person: folded, since the words are what is read. */
function contextView(item: Item, full: Full | null): HTMLElement | null {
  if (item.context === "") return null;
  const words = full?.part.context ?? item.context;
  return h("details", { class: "context" }, h("summary", { text: "Context that the program added" }), h("pre", { class: "code", dir: "auto", tabindex: 0 }, h("code", { text: words })));
}

/** A line across the conversation where a seal was made. */
export function sealRow(seal: SealMark, log: OpenLog, at: number, total: number): HTMLElement {
  const signer = log.report?.signers[0];
  const isTrusted = signer?.status === "trusted" || signer?.status === "pinned";
  const name = signer === undefined ? "" : nameOf(signer);
  const words = seal.final ? "Sealed to its end" : "Sealed";
  return h("article", { class: "seal-row", "data-light": isTrusted ? "green" : "none", tabindex: -1, "aria-posinset": at + 1, "aria-setsize": total, "aria-label": `Seal ${seal.seq}` },
    h("span", { class: "seal-mark" }, icon("seal"), h("span", { text: words }), name === "" ? null : h("span", {}, "by ", foreign(name)),
      seal.time === null ? null : h("time", { datetime: iso(seal.time), title: "By the signer's clock", text: when(seal.time) }), h("span", { class: "quiet", text: `seal ${seal.seq}` })));
}

export function noteRow(words: string, at: number, total: number): HTMLElement {
  return h("article", { class: "note-row", tabindex: -1, "aria-posinset": at + 1, "aria-setsize": total, "aria-label": words }, h("span", { text: words }));
}

/** Marks words in the text of a row. */
function highlight(box: HTMLElement, words: string): void {
  const needle = fold(words);
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  for (let node = walker.nextNode(); node !== null && found.length < 200; node = walker.nextNode()) {
    if (fold(node.textContent!).includes(needle) && node.parentElement!.closest("time,.turn-number") === null) found.push(node as Text);
  }
  for (const node of found) {
    for (const [from, to] of placesOf(node.data, needle).reverse()) {
      node.splitText(to);
      const match = node.splitText(from);
      const mark = h("mark");
      match.replaceWith(mark);
      mark.appendChild(match);
    }
  }
}
