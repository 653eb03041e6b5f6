// Two copies or sessions side by side: where they part.

import { type Assets, Client } from "../client.js";
import type { Home, LogFiles } from "../home.js";
import type { Full, Item } from "../read/session.js";
import { text } from "../read/part.js";
import { foreign, h, icon, replace } from "./dom.js";
import { compared, diffBody } from "./diff.js";
import { bytes, count } from "./format.js";
import { type Page, routeText } from "./page.js";
import { prose } from "./prose.js";

const NEIGHBOURS = 3;
const SHOWN_AFTER = 40;

interface Side {
  readonly name: string;
  readonly client: Client;
  readonly items: Item[];
  readonly size: number;
}

export class ComparePage implements Page {
  readonly element = h("div", { class: "compare-page" });
  readonly title = "Compare";
  readonly keys = [] as const;
  private readonly clients: Client[] = [];

  constructor(private readonly home: Home, private readonly assets: Assets, a: string, b: string) {
    const back = home.isServed ? h("a", { class: "icon-button", href: routeText({ page: "list" }), "aria-label": "All sessions", title: "All sessions" }, icon("back")) : null;
    const body = h("div", { class: "compare-body", tabindex: 0, role: "region", "aria-label": "Comparison" }, h("p", { class: "quiet", text: "Reading both." }));
    this.element.append(h("header", { class: "session-head" }, h("div", { class: "head-line" }, back, h("h1", { text: "Where two records part" }))), body);
    this.begin(a, b, body).catch((error: unknown) => replace(body, h("p", { class: "problem", role: "alert", text: `Cannot compare: ${error instanceof Error ? error.message : String(error)}.` })));
  }

  close(): void {
    for (const one of this.clients) one.end();
  }

  key(): boolean {
    return false;
  }

  private async begin(a: string, b: string, body: HTMLElement): Promise<void> {
    const [first, second] = await this.home.compare(a, b);
    const sides = await Promise.all([this.read(a, first), this.read(b, second)]);
    await this.draw(sides[0]!, sides[1]!, body);
  }

  private async read(name: string, files: LogFiles): Promise<Side> {
    const client = await Client.begin(this.assets);
    this.clients.push(client);
    const items: Item[] = [];
    const { size } = await client.open(files.source, (batch) => {
      items.length = Math.min(items.length, batch.from);
      items.push(...batch.items);
      for (const change of batch.changed) items[change.i] = { ...items[change.i]!, ...change };
    });
    return { name, client, items, size };
  }

  private async draw(a: Side, b: Side, body: HTMLElement): Promise<void> {
    const byte = await firstDifference(a, b);
    const at = await firstItem(a, b);
    const same = byte === null && a.size === b.size;
    const sentence = same ? `Both are the same, byte for byte: ${bytes(a.size)}.`
      : byte === Math.min(a.size, b.size) ? `One begins like the other, which has ${bytes(Math.abs(a.size - b.size))} more.`
        : `They are the same up to byte ${(byte ?? 0).toLocaleString("en")}, and part there.`;
    const banner = h("section", { class: "verdict", "data-light": same ? "green" : "amber", "aria-label": "Result" }, h("div", { class: "verdict-line" }, h("span", { class: "verdict-seal" }, icon(same ? "seal" : "compare")), h("p", { class: "verdict-sentence", text: sentence })));
    const columns = h("div", { class: "compare-columns" });
    replace(body, banner, h("p", { class: "quiet", text: at === null ? "Their turns are the same." : `${count(at, "item")} before are the same in both.` }), columns);
    if (at === null) return;
    const table = h("div", { class: "pairs" });
    columns.append(h("div", { class: "pair pair-head" }, h("h2", {}, foreign(a.name)), h("h2", {}, foreign(b.name))), table);
    for (let i = Math.max(0, at - NEIGHBOURS); i < Math.min(Math.max(a.items.length, b.items.length), at + SHOWN_AFTER); i++) {
      const one = a.items[i] === undefined ? null : await a.client.full(i);
      const other = b.items[i] === undefined ? null : await b.client.full(i);
      table.appendChild(pair(a.items[i], one, b.items[i], other, i === at));
    }
  }
}

function pair(a: Item | undefined, one: Full | null, b: Item | undefined, other: Full | null, isFirst: boolean): HTMLElement {
  const x = one === null ? "" : wordsOf(one);
  const y = other === null ? "" : wordsOf(other);
  const isSame = x === y && a?.kind === b?.kind;
  const row = h("div", { class: `pair${isSame ? " same" : " differs"}${isFirst ? " first" : ""}` });
  if (isFirst) row.appendChild(h("p", { class: "pair-note", text: "Here they part" }));
  if (!isSame && a !== undefined && b !== undefined && a.kind === b.kind) {
    row.appendChild(h("div", { class: "pair-diff" }, h("p", { class: "label", text: `${[a.kind, a.name].join(" ").trim()}, turn ${a.turn}` }), diffBody(compared(x, y))));
    return row;
  }
  row.append(side(a, x), side(b, y));
  return row;
}

function side(item: Item | undefined, words: string): HTMLElement {
  if (item === undefined) return h("div", { class: "pair-side quiet", text: "It ends before." });
  return h("div", { class: "pair-side" }, h("p", { class: "label", text: `${[item.kind, item.name].join(" ").trim()}, turn ${item.turn}` }), prose(words.slice(0, 1200)));
}

function wordsOf(full: Full): string {
  const result = full.result === null ? "" : `\n→ ${full.result.text}`;
  return `${full.part.text}${full.part.data === undefined ? "" : text(full.part.data)}${result}`;
}

const STEP = 1 << 20;

/** The first byte that differs, or the end of the shorter one; null: they are the same. */
async function firstDifference(a: Side, b: Side): Promise<number | null> {
  const end = Math.min(a.size, b.size);
  for (let at = 0; at < end; at += STEP) {
    const [x, y] = await Promise.all([a.client.slice(at, Math.min(at + STEP, end)), b.client.slice(at, Math.min(at + STEP, end))]);
    for (let i = 0; i < x!.length; i++) if (x![i] !== y![i]) return at + i;
  }
  return a.size === b.size ? null : end;
}

const AT_ONCE = 64;

/** The first item that differs in anything; what did not come along whole is read. */
async function firstItem(a: Side, b: Side): Promise<number | null> {
  const most = Math.max(a.items.length, b.items.length);
  for (let from = 0; from < most; from += AT_ONCE) {
    const range = Array.from({ length: Math.min(AT_ONCE, most - from) }, (_, at) => from + at);
    const same = await Promise.all(range.map((i) => isSame(a, b, i)));
    const at = same.indexOf(false);
    if (at >= 0) return from + at;
  }
  return null;
}

async function isSame(a: Side, b: Side, i: number): Promise<boolean> {
  const x = a.items[i];
  const y = b.items[i];
  if (x === undefined || y === undefined) return false;
  if (x.kind !== y.kind || x.name !== y.name || x.text !== y.text || x.length !== y.length || x.result !== y.result || x.resultLength !== y.resultLength) return false;
  const isWhole = x.kind !== "tool" && x.kind !== "event" && x.text.length === x.length;
  if (isWhole) return true;
  const [one, other] = await Promise.all([a.client.full(i), b.client.full(i)]);
  return one !== null && other !== null && wordsOf(one) === wordsOf(other);
}
