// Two copies or sessions side by side: where they part.

import type { Assets } from "../client.js";
import type { Trusted } from "../core.js";
import type { Home } from "../home.js";
import { OpenLog } from "../open-log.js";
import type { Full, Item } from "../read/session.js";
import { text } from "../read/part.js";
import { foreign, h, icon, replace, visible } from "./dom.js";
import { compared } from "../read/compared.js";
import { diffBody } from "./diff.js";
import { bytes, count } from "./format.js";
import { type Page, routeText } from "./page.js";
import { prose } from "./prose.js";
import { LIGHT_ICON, judged } from "./verdict.js";

const NEIGHBOURS = 3;
const SHOWN_AFTER = 40;

/** One of the two, with what the page's verifiers report of it. */
interface Side {
  readonly id: string;
  readonly log: OpenLog;
  readonly head: HTMLElement;
}

export class ComparePage implements Page {
  readonly element = h("div", { class: "compare-page" });
  readonly title = "Compare";
  readonly keys = [] as const;
  private readonly logs: OpenLog[] = [];

  constructor(private readonly home: Home, private readonly assets: Assets, private readonly trust: { value: Trusted }, a: string, b: string) {
    const back = h("a", { class: "icon-button", href: routeText({ page: "list" }), "aria-label": "All sessions", title: "All sessions" }, icon("back"));
    const body = h("div", { class: "compare-body", tabindex: 0, role: "region", "aria-label": "Comparison" }, h("p", { class: "quiet", text: "Reading both." }));
    this.element.append(h("header", { class: "session-head" }, h("div", { class: "head-line" }, back, h("h1", { text: "Where two records part" }))), body);
    this.begin(a, b, body).catch((error: unknown) => replace(body, h("p", { class: "problem", role: "alert", text: `Cannot compare: ${error instanceof Error ? error.message : String(error)}.` })));
  }

  close(): void {
    for (const one of this.logs) one.close();
  }

  key(): boolean {
    return false;
  }

  private async begin(a: string, b: string, body: HTMLElement): Promise<void> {
    if (this.trust.value.keys.length === 0) this.trust.value = await this.home.trust();
    const sides = await Promise.all([this.read(a), this.read(b)]);
    await this.draw(sides[0]!, sides[1]!, body);
  }

  /** Reads a session's own log; its verdict comes when it comes. */
  private async read(id: string): Promise<Side> {
    const info = await this.home.session(id);
    const row = info.logs[0];
    if (row === undefined) throw new Error(`the session ${id} has no log`);
    const log = new OpenLog(row.log, this.home.files(row), this.trust.value, this.assets);
    this.logs.push(log);
    const head = h("div", { class: "side-head" });
    const link = h("a", { class: "side-name", href: routeText({ page: "session", id, log: null, turn: null }) }, foreign(info.title ?? id));
    const draw = (): void => {
      const judgement = log.answers.length === 0 ? { light: "none" as const, sentence: "Verifying in this page." } : judged(log.answers);
      head.dataset["light"] = judgement.light;
      replace(head, h("h2", {}, link), h("p", { class: "side-id" }, foreign(id)), h("p", { class: "side-verdict" }, icon(LIGHT_ICON[judgement.light]), h("span", { text: judgement.sentence })));
    };
    draw();
    await new Promise<void>((resolve, reject) => {
      const items = (): void => {
        if (log.error !== null) reject(new Error(log.error));
        else if (log.isRead) resolve();
      };
      log.listener = { items, verdict: draw, progress: () => undefined };
      log.open().catch(reject);
    });
    return { id, log, head };
  }

  private async draw(a: Side, b: Side, body: HTMLElement): Promise<void> {
    const byte = await firstDifference(a.log, b.log);
    const at = await firstItem(a.log, b.log);
    const banner = h("section", { class: "verdict", "data-light": byte === null ? "none" : "amber", "aria-label": "Result" }, h("div", { class: "verdict-line" },
      h("span", { class: "verdict-seal" }, icon("compare")), h("p", { class: "verdict-sentence", text: resultOf(a.log.size, b.log.size, byte) })));
    const words = at === null ? "Every item is the same in both." : at === 0 ? "They differ from the first item on." : `${count(at, "item is", "items are")} the same in both before that.`;
    const table = h("div", { class: "pairs" });
    replace(body, banner, h("p", { class: "quiet", text: words }), h("div", { class: "pair pair-head" }, a.head, b.head), table);
    if (at === null) return;
    const [most, least] = [Math.max(a.log.items.length, b.log.items.length), Math.max(0, at - NEIGHBOURS)];
    for (let i = least; i < Math.min(most, at + SHOWN_AFTER); i++) {
      const [one, other] = await Promise.all([fullOf(a.log, i), fullOf(b.log, i)]);
      table.appendChild(pair(a.log.items[i], one, b.log.items[i], other, i === at));
    }
    if (most > at + SHOWN_AFTER) table.appendChild(h("p", { class: "quiet", text: `${count(most - at - SHOWN_AFTER, "more item follows", "more items follow")}.` }));
  }
}

function resultOf(a: number, b: number, byte: number | null): string {
  if (byte === null) return `Both are the same, byte for byte: ${bytes(a)}.`;
  if (byte === Math.min(a, b)) return `The ${a < b ? "first" : "second"} is the beginning of the other, which has ${bytes(Math.abs(a - b))} more.`;
  return `They are the same up to byte ${byte.toLocaleString("en")}, and part there.`;
}

async function fullOf(log: OpenLog, i: number): Promise<Full | null> {
  return log.items[i] === undefined ? null : log.full(i);
}

function pair(a: Item | undefined, one: Full | null, b: Item | undefined, other: Full | null, isFirst: boolean): HTMLElement {
  const x = one === null ? "" : wordsOf(one);
  const y = other === null ? "" : wordsOf(other);
  const isSame = x === y && a?.kind === b?.kind;
  const row = h("div", { class: `pair${isSame ? " same" : " differs"}${isFirst ? " first" : ""}` });
  if (isFirst) row.appendChild(h("p", { class: "pair-note", text: "Here they part" }));
  if (!isSame && a !== undefined && b !== undefined && a.kind === b.kind) {
    row.appendChild(h("div", { class: "pair-diff" }, h("p", { class: "label", text: labelOf(a) }), diffBody(compared(x, y))));
    return row;
  }
  row.append(side(a, x), side(b, y));
  return row;
}

function side(item: Item | undefined, words: string): HTMLElement {
  if (item === undefined) return h("div", { class: "pair-side quiet", text: "It ends before." });
  return h("div", { class: "pair-side" }, h("p", { class: "label", text: labelOf(item) }), prose(words.slice(0, 1200)));
}

const KINDS: { readonly [kind: string]: string } = { user: "User", assistant: "Agent", reasoning: "Reasoning", system: "Context", compaction: "Compaction", hole: "Redacted" };

function labelOf(item: Item): string {
  const name = item.kind === "tool" ? item.name : [KINDS[item.kind] ?? item.kind, item.name].join(" ").trim();
  return `${visible(name)}, turn ${item.turn}`;
}

function wordsOf(full: Full): string {
  const result = full.result === null ? "" : `\n→ ${full.result.text}`;
  return `${full.part.text}${full.part.data === undefined ? "" : text(full.part.data)}${result}`;
}

const STEP = 1 << 20;

/** The first byte that differs, or the end of the shorter one; null: they are the same. */
async function firstDifference(a: OpenLog, b: OpenLog): Promise<number | null> {
  const end = Math.min(a.size, b.size);
  for (let at = 0; at < end; at += STEP) {
    const [x, y] = await Promise.all([a.slice(at, Math.min(at + STEP, end)), b.slice(at, Math.min(at + STEP, end))]);
    for (let i = 0; i < x!.length; i++) if (x![i] !== y![i]) return at + i;
  }
  return a.size === b.size ? null : end;
}

const AT_ONCE = 64;

/** The first item that differs in anything; what did not come along whole is read. */
async function firstItem(a: OpenLog, b: OpenLog): Promise<number | null> {
  const most = Math.max(a.items.length, b.items.length);
  for (let from = 0; from < most; from += AT_ONCE) {
    const range = Array.from({ length: Math.min(AT_ONCE, most - from) }, (_, at) => from + at);
    const same = await Promise.all(range.map((i) => isSame(a, b, i)));
    const at = same.indexOf(false);
    if (at >= 0) return from + at;
  }
  return null;
}

async function isSame(a: OpenLog, b: OpenLog, i: number): Promise<boolean> {
  const x = a.items[i];
  const y = b.items[i];
  if (x === undefined || y === undefined) return false;
  if (x.kind !== y.kind || x.name !== y.name || x.text !== y.text || x.length !== y.length || x.result !== y.result || x.resultLength !== y.resultLength) return false;
  const isWhole = x.kind !== "tool" && x.kind !== "event" && x.text.length === x.length;
  if (isWhole) return true;
  const [one, other] = await Promise.all([a.full(i), b.full(i)]);
  return one !== null && other !== null && wordsOf(one) === wordsOf(other);
}
