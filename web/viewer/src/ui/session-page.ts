// A session as a conversation: the verdict on top, exchanges at the side, the turns in the middle.

import type { Assets, Timed } from "../client.js";
import type { Trusted } from "../core.js";
import type { Change, Home, LogRow, SessionInfo } from "../home.js";
import { OpenLog } from "../open-log.js";
import type { SealMark } from "../read/seals.js";
import type { Full, Item } from "../read/session.js";
import { Banner } from "./banner.js";
import { announce, button, download, foreign, h, icon, replace, visible } from "./dom.js";
import { bytes, clock, count, duration, money, short } from "./format.js";
import { type Page, type Route, routeText } from "./page.js";
import { MAX_AUTO_TEXT, itemRow, noteRow, sealRow } from "./rows.js";
import { VirtualList } from "./virtual.js";
import { judged } from "./verdict.js";

/** What is in a row: an item, a seal, or a note of ours. */
type RowOf = { readonly item: number } | { readonly seal: SealMark } | { readonly note: string };

const FILTERS = [
  { name: "user", label: "User", kinds: ["user"] },
  { name: "agent", label: "Agent", kinds: ["assistant"] },
  { name: "reasoning", label: "Reasoning", kinds: ["reasoning"] },
  { name: "tools", label: "Tools", kinds: ["tool"] },
  { name: "other", label: "Context", kinds: ["system", "hook", "event", "compaction"] },
] as const;

const SEARCH_DELAY = 60;
/** A log that grows is verified again after this pause. */
const LIVE_DELAY = 250;
const MAX_FULL = 300;
/** A log up to this size is unfolded whole on paper. */
const MAX_UNFOLDED_BYTES = 4 * 2 ** 20;

export interface SessionOptions {
  readonly home: Home;
  readonly assets: Assets;
  readonly id: string;
  readonly log: string | null;
  readonly turn: number | null;
  readonly query: string | null;
  readonly isReceived: boolean;
  readonly trust: { value: Trusted };
  readonly go: (route: Route) => void;
}

export class SessionPage implements Page {
  readonly element = h("div", { class: "session" });
  title = "Session";
  private log: OpenLog | null = null;
  private info: SessionInfo | null = null;
  private banner: Banner | null = null;
  private rows: RowOf[] = [];
  private readonly rowOfItem = new Map<number, number>();
  private readonly opened = new Set<number>();
  private readonly raw = new Set<number>();
  private readonly fulls = new Map<number, Full>();
  private readonly reading = new Set<number>();
  private mostFull = 0;
  /** What the last action answered: rows are drawn anew at any time, and have to show it then too. */
  private answer: { readonly item: number; readonly words: string } | null = null;
  private readonly hidden = new Set<string>();
  private onlyErrors = false;
  private onlyChanged = false;
  private matches: Set<number> | null = null;
  private matchList: readonly number[] = [];
  private matchAt = -1;
  private words = "";
  private current = -1;
  private firstRow = -1;
  private exchange = -1;
  private goal: { turn: number } | null;
  private searchTimer = 0;
  private liveTimer = 0;
  private endLive: () => void = () => undefined;
  private onDisk: Change | null = null;
  private isGrowing = false;
  private isPrinting = false;
  private readonly conversation: VirtualList;
  private readonly rail: VirtualList;
  private readonly head = h("header", { class: "session-head" });
  private readonly bannerBox = h("div");
  private readonly note = h("p", { class: "disk-note", role: "status", hidden: true });
  private readonly status = h("p", { class: "search-status", role: "status" });
  private readonly input = h("input", { type: "search", class: "search-input", placeholder: "Search this session", "aria-label": "Search this session", autocomplete: "off", spellcheck: "false" });
  private readonly side = h("aside", { class: "side", "aria-label": "Exchanges", id: "side" });
  private readonly tail = button("Newest", { class: "tail-button", hidden: true, on: { click: () => this.conversation.toEnd() } }, icon("down"), h("span", { text: "Newest" }));

  constructor(private readonly options: SessionOptions) {
    this.goal = options.turn === null ? null : { turn: options.turn };
    this.conversation = new VirtualList({
      count: () => this.rows.length,
      guess: (at) => this.guess(at),
      render: (at) => this.renderRow(at),
    }, { class: "virtual conversation", role: "feed", "aria-label": "Conversation", "aria-busy": "true" });
    this.rail = new VirtualList({
      count: () => this.log?.exchanges.length ?? 0,
      guess: () => 58,
      render: (at) => this.renderExchange(at),
    }, { class: "virtual exchanges", role: "list", "aria-label": "Exchanges" });
    this.conversation.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.input.addEventListener("input", () => this.searchSoon());
    this.input.addEventListener("keydown", (event) => this.searchKey(event));
    this.element.append(this.head, this.bannerBox, this.note, this.toolbar(), h("div", { class: "columns" }, this.side, h("div", { class: "center" }, this.conversation.scroller, this.tail)));
    this.side.append(this.rail.scroller);
    void this.begin();
  }

  // --------------------------------------------------------------------------------------- opening

  private async begin(): Promise<void> {
    const { options } = this;
    const { home } = options;
    try {
      const [trust, info] = await Promise.all([options.trust.value.keys.length === 0 ? home.trust() : options.trust.value, home.session(options.id)]);
      options.trust.value = trust;
      this.info = info;
      const row = this.info.logs.find((one) => one.log === options.log) ?? this.info.logs.find((one) => one.parent === null) ?? this.info.logs[0];
      if (row === undefined) throw new Error("this session has no log");
      const log = new OpenLog(row.log, home.files(row), options.trust.value, options.assets);
      this.log = log;
      this.banner = new Banner({
        log, isReceived: options.isReceived, serverReport: home.isServed ? () => home.report(row.log) : null,
        onTrust: (trusted) => this.useTrust(trusted), onPlace: (line) => this.toLine(line),
      });
      this.bannerBox.append(this.banner.element);
      log.listener = {
        items: () => this.itemsCame(),
        verdict: () => this.verdictCame(),
        progress: ({ bytes: done, size }) => log.answers.length === 0 && this.banner!.setProgress(done, Math.max(size, row.bytes)),
      };
      this.drawHead();
      this.drawFamily();
      this.endLive = home.follow([log.name], { changed: (change) => this.changed(change), gone: (name) => this.gone(name), again: () => undefined });
      await log.open();
      if (!home.isServed && log.size <= MAX_UNFOLDED_BYTES) void this.readAll();
      this.growSoon();
      if (options.query !== null) this.searchFor(options.query);
    } catch (error) {
      this.element.classList.add("lost");
      replace(this.head, h("div", { class: "head-line" }, this.backLink(), h("h1", { text: "No session to show" })));
      const cause = error instanceof Error ? error.message : String(error);
      replace(this.bannerBox, h("p", { class: "problem", role: "alert", text: `Cannot show the session: ${cause}.${/\b404\b/.test(cause) ? " It may have been removed from the disk, or the address has a mistake." : ""}` }));
    }
  }

  close(): void {
    this.endLive();
    clearTimeout(this.liveTimer);
    clearTimeout(this.searchTimer);
    this.log?.close();
  }

  private useTrust(trusted: Trusted): void {
    this.options.trust.value = trusted;
    void this.log?.trust(trusted);
  }

  /** The first change comes when nothing changed yet: sizes decide. */
  private changed(change: Change): void {
    if (change.log !== this.log?.name) return;
    this.onDisk = change;
    this.note.hidden = true;
    this.growSoon();
  }

  private growSoon(): void {
    clearTimeout(this.liveTimer);
    this.liveTimer = window.setTimeout(() => void this.grow(), LIVE_DELAY);
  }

  private async grow(): Promise<void> {
    const { log, onDisk } = this;
    if (log === null || onDisk === null || !log.isRead || this.isGrowing || !log.differs(onDisk)) return;
    this.isGrowing = true;
    try {
      const wasAtEnd = this.conversation.atEnd();
      const info = await this.options.home.session(this.options.id);
      const row = info.logs.find((one) => one.log === log.name);
      if (row === undefined) return;
      if (onDisk.bytes <= log.size) this.fulls.clear();
      await log.grow(this.options.home.files({ ...row, seals: onDisk.seals }), onDisk);
      if (wasAtEnd) this.conversation.toEnd();
    } catch (error) {
      this.noteDisk(`It changed on the disk, and cannot be read again: ${error instanceof Error ? error.message : String(error)}.`);
    } finally {
      this.isGrowing = false;
    }
    // It may have changed once more meanwhile.
    if (this.onDisk !== onDisk) this.growSoon();
  }

  private gone(name: string | null): void {
    if (name !== null && name !== this.log?.name) return;
    this.noteDisk("The file is no longer on the disk. What you see was read before.");
  }

  private noteDisk(words: string): void {
    this.note.hidden = false;
    this.note.textContent = words;
  }

  private itemsCame(): void {
    const log = this.log!;
    const known = this.rows.length;
    this.buildRows();
    this.conversation.reset(known > 0 && this.rows.length >= known && this.matches === null);
    this.rail.reset(known > 0);
    this.conversation.scroller.setAttribute("aria-busy", String(!log.isRead));
    // Without contents the place for them would be an empty column.
    this.element.classList.toggle("no-side", log.exchanges.length === 0 && this.side.querySelector(".family") === null);
    this.drawHead();
    // What came may have the words too.
    if (this.matches !== null) this.searchSoon();
    if (this.goal !== null) this.toGoal();
    if (log.error !== null) replace(this.bannerBox, h("p", { class: "problem", role: "alert", text: `Cannot read the log: ${log.error}.` }));
    requestAnimationFrame(() => (this.tail.hidden = this.conversation.atEnd()));
  }

  private verdictCame(): void {
    this.banner?.draw();
    const count = this.rows.length;
    this.buildRows();
    // Marks change, rows seldom: then what is read stays in its place.
    if (this.rows.length === count) {
      this.conversation.repaint();
      // The core's numbers may have come meanwhile.
      this.putAddress();
    } else this.conversation.reset();
    this.rail.repaint();
    this.drawHead();
    document.dispatchEvent(new CustomEvent("verdict", { detail: this.log!.answers.length > 0 ? judged(this.log!.answers, this.log!) : null }));
  }

  private toGoal(): void {
    const { turns, items, isNumbered } = this.log!;
    if (!isNumbered) return;
    const { turn } = this.goal!;
    const shown = items.filter((one) => !one.replaced && this.rowOfItem.has(one.i));
    const item = shown.find((one) => turns.linked(one) === turn) ?? shown.find((one) => turns.has(one, turn)) ?? shown.find((one) => turns.linked(one) > turn);
    if (item === undefined) return;
    this.goal = null;
    requestAnimationFrame(() => this.select(this.rowOfItem.get(item.i)!, "top"));
  }

  private toLine(line: number): void {
    this.clearFilters();
    const item = this.log!.items.find((one) => !one.replaced && (one.line >= line || one.resultLine === line) && this.rowOfItem.has(one.i));
    if (item !== undefined) this.select(this.rowOfItem.get(item.i)!, "middle");
  }

  // ------------------------------------------------------------------------------------------ rows

  /** Items in their order, with a line at each seal, and a note where the seals end. */
  private buildRows(): void {
    const log = this.log!;
    this.rows = [];
    this.rowOfItem.clear();
    const drawsSeals = log.sealFile !== null;
    const isFiltered = this.matches !== null || this.onlyErrors || this.onlyChanged;
    let next = 0;
    let noted = false;
    for (const item of log.items) {
      if (drawsSeals && !isFiltered) {
        for (; next < log.seals.length && log.seals[next]!.line < item.line; next++) this.rows.push({ seal: log.seals[next]! });
        if (!noted && next >= log.seals.length && log.seals.length > 0) {
          noted = true;
          this.rows.push({ note: "Not sealed yet: what follows came after the last seal" });
        }
      }
      if (item.replaced || !this.isShown(item)) continue;
      if (item.kind === "seal") {
        const seal = log.seals.find((one) => one.line === item.line);
        if (seal !== undefined && !isFiltered) this.rows.push({ seal });
        continue;
      }
      this.rowOfItem.set(item.i, this.rows.length);
      this.rows.push({ item: item.i });
    }
    if (drawsSeals && !isFiltered) for (; next < log.seals.length; next++) this.rows.push({ seal: log.seals[next]! });
    if (log.isRead && this.rows.length === 0) this.rows.push({ note: this.matches !== null ? "No turn has these words" : log.items.length === 0 ? "This log has no turns yet" : "The filters hide every turn" });
  }

  private isShown(item: Item): boolean {
    if (this.matches !== null && !this.matches.has(item.i)) return false;
    if (this.onlyErrors && item.ok !== false && item.kind !== "damaged") return false;
    if (this.onlyChanged && item.added + item.removed === 0) return false;
    for (const filter of FILTERS) if (this.hidden.has(filter.name) && (filter.kinds as readonly string[]).includes(item.kind)) return false;
    return true;
  }

  private guess(at: number): number {
    const row = this.rows[at]!;
    if (!("item" in row)) return 44;
    const item = this.log!.items[row.item]!;
    if (item.kind !== "user" && item.kind !== "assistant") return 40;
    return 64 + 23 * Math.ceil(Math.min(item.length, 4000) / 90);
  }

  private renderRow(at: number): HTMLElement {
    const row = this.rows[at]!;
    const total = this.rows.length;
    const log = this.log!;
    if ("note" in row) return noteRow(row.note, at, total);
    if ("seal" in row) return sealRow(row.seal, log, at, total);
    const item = log.items[row.item]!;
    if (!isFoldedKind(item) && item.length > item.text.length && item.length <= MAX_AUTO_TEXT) this.readSoon(item.i);
    const isOpen = this.opened.has(item.i) || (this.isPrinting && this.fulls.has(item.i));
    const element = itemRow(item, log, {
      isOpen, isRaw: this.raw.has(item.i), full: isOpen || this.raw.has(item.i) || !isFoldedKind(item) ? this.fulls.get(item.i) ?? null : null,
      at, total, answer: this.answer?.item === item.i ? this.answer.words : null, words: this.words, link: routeText({ page: "session", id: this.options.id, log: log.name, turn: log.turns.linked(item) }),
    }, {
      open: (i) => void this.toggle(this.opened, i), raw: (i) => void this.toggle(this.raw, i), prove: (i) => void this.prove(i), copyLink: (i) => void this.copyLink(i), agent: (i) => this.openAgent(i),
    });
    if (at === this.current) element.classList.add("current");
    element.tabIndex = at === this.current || (this.current < 0 && at === 0) ? 0 : -1;
    element.addEventListener("focusin", () => this.setCurrent(at));
    return element;
  }

  private async toggle(set: Set<number>, i: number): Promise<void> {
    if (set.has(i)) set.delete(i);
    else set.add(i);
    this.refresh(i);
    if (set.has(i)) await this.read(i);
  }

  /** Words that did not come along are read when their row is in sight. */
  private readSoon(i: number): void {
    if (this.reading.has(i) || this.fulls.has(i)) return;
    this.reading.add(i);
    void this.read(i).finally(() => this.reading.delete(i));
  }

  private async read(i: number): Promise<void> {
    if (this.fulls.has(i)) return;
    const full = await this.log!.full(i).catch(() => null);
    if (full === null) return;
    if (this.fulls.size >= Math.max(MAX_FULL, this.mostFull)) this.fulls.delete(this.fulls.keys().next().value!);
    this.fulls.set(i, full);
    this.refresh(i);
  }

  /** Of a short log all is read, so that paper has it: the browser prints without waiting. */
  private async readAll(): Promise<void> {
    this.mostFull = this.log!.items.length;
    for (const item of this.log!.items) {
      if (item.replaced || this.fulls.has(item.i)) continue;
      const full = await this.log?.full(item.i).catch(() => null);
      if (full) this.fulls.set(item.i, full);
    }
  }

  private refresh(i: number): void {
    const at = this.rowOfItem.get(i);
    if (at !== undefined) this.conversation.refresh(at);
  }

  private setCurrent(at: number): void {
    if (this.current === at) return;
    this.conversation.element(this.current)?.classList.remove("current");
    this.current = at;
    const element = this.conversation.element(at);
    element?.classList.add("current");
    this.putAddress();
  }

  /** The address follows the current row. */
  private putAddress(): void {
    const row = this.rows[this.current];
    if (row === undefined || !("item" in row)) return;
    const item = this.log!.items[row.item]!;
    history.replaceState(null, "", routeText({ page: "session", id: this.options.id, log: this.log!.name, turn: this.log!.turns.linked(item) }));
  }

  private select(at: number, where: "top" | "middle" | "near"): void {
    if (at < 0 || at >= this.rows.length) return;
    this.conversation.scrollTo(at, where);
    this.setCurrent(at);
    const element = this.conversation.element(at);
    if (element === undefined) return;
    element.tabIndex = 0;
    element.focus({ preventScroll: true });
  }

  // ------------------------------------------------------------------------------------ the header

  private drawHead(): void {
    const log = this.log;
    if (log === null) return;
    const total = log.exchanges.reduce((sum, one) => ({ tokens: sum.tokens + one.input + one.cached + one.output, cost: sum.cost + one.cost, tools: sum.tools + one.tools }), { tokens: 0, cost: 0, tools: 0 });
    const title = log.facts.title ?? log.exchanges[0]?.title ?? log.facts.thread ?? log.name;
    this.title = title.slice(0, 80);
    const models = [...new Set(log.items.map((item) => item.model).filter((one) => one !== null))].slice(0, 3);
    const facts: (HTMLElement | null)[] = [
      log.facts.agent === undefined ? h("span", { text: log.format }) : h("span", {}, foreign(log.facts.agent), log.facts.version === undefined ? null : foreign(` ${log.facts.version}`, { class: "less" })),
      models.length === 0 ? null : h("span", {}, foreign(models.join(", "))),
      log.facts.project === undefined ? null : h("span", { class: "path" }, foreign(log.facts.project)),
      h("span", { text: count(log.exchanges.length, "exchange") }),
      log.items.length > 0 ? h("span", { text: count(log.turns.count || log.items.at(-1)!.turn + 1, "turn") }) : null,
      total.tools > 0 ? h("span", { text: count(total.tools, "call") }) : null,
      total.tokens > 0 ? h("span", { text: `${short(total.tokens)} tokens` }) : null,
      total.cost > 0 ? h("span", { text: money(total.cost) }) : null,
      h("span", { class: "less", text: bytes(log.size) }),
      this.info !== null && this.info.secrets > 0 ? h("span", { class: "secrets", title: "The command found texts that look like keys or passwords. Look before you share this session.", text: `${count(this.info.secrets, "possible secret")}` }) : null,
    ];
    const isPart = this.info !== null && this.info.logs.find((one) => one.log === log.name)?.parent != null;
    replace(this.head,
      h("div", { class: "head-line" },
        this.backLink(),
        button("Show the exchanges", { class: "icon-button side-button", "aria-expanded": "false", "aria-controls": "side", on: { click: (event: MouseEvent) => this.toggleSide(event.currentTarget as HTMLElement) } }, icon("menu")),
        h("h1", { dir: "auto", title: visible(title), text: visible(title) }),
        isPart ? h("a", { class: "chip", href: routeText({ page: "session", id: this.options.id, log: null, turn: null }) }, icon("agent"), "Subagent of the session") : null),
      h("p", { class: "head-facts" }, ...facts),
    );
  }

  private backLink(): HTMLElement | null {
    return this.options.home.isServed ? h("a", { class: "icon-button", href: routeText({ page: "list" }), "aria-label": "All sessions", title: "All sessions" }, icon("back")) : null;
  }

  private toggleSide(control: HTMLElement): void {
    const isOpen = this.element.classList.toggle("side-open");
    control.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.rail.reset();
  }

  /** Subagents, and sessions before and after this one. */
  private drawFamily(): void {
    const info = this.info!;
    const box = h("nav", { class: "family", "aria-label": "Subagents and linked sessions" });
    const parts = info.logs.filter((one) => one.log !== this.log!.name);
    const link = (row: LogRow): HTMLElement => h("a", { href: routeText({ page: "session", id: info.id, log: row.log, turn: null }), "data-light": row.light },
      icon("agent"), foreign(row.log.split("/").at(-1) ?? row.log), h("span", { class: "quiet", text: row.state_text }));
    for (const row of parts.slice(0, 200)) box.appendChild(link(row));
    const words: { readonly [kind: string]: string } = { continues: "Continues", continued_by: "Continued by", parent: "Began by", child: "Began", graph: "Graph", lineage: "Lineage" };
    for (const one of info.links) {
      const route: Route = one.kind === "lineage" || one.kind === "graph" ? { page: "drawing", kind: one.kind === "graph" ? "graphs" : "lineages", id: one.id } : { page: "session", id: one.id, log: null, turn: null };
      box.appendChild(h("a", { href: routeText(route) }, icon("graph"), h("span", { class: "quiet", text: words[one.kind] ?? one.kind }), foreign(one.id)));
    }
    if (box.childElementCount > 0) this.side.prepend(h("h2", { text: "Subagents and links" }), box, h("h2", { text: "Exchanges" }));
  }

  private renderExchange(at: number): HTMLElement {
    const log = this.log!;
    const one = log.exchanges[at]!;
    const tokens = one.input + one.cached + one.output;
    const first = log.items[one.first];
    const standing = this.exchangeStanding(at);
    const took = one.time !== null && one.until !== null && one.until > one.time ? duration(one.until - one.time) : "";
    const facts = [one.time === null ? "" : clock(one.time), one.tools > 0 ? count(one.tools, "call") : "", tokens > 0 ? short(tokens) : "", money(one.cost), took];
    return h("div", { role: "listitem", class: "exchange", "data-standing": standing },
      h("a", {
        href: routeText({ page: "session", id: this.options.id, log: log.name, turn: first === undefined ? 0 : log.turns.linked(first) }),
        on: { click: (event: MouseEvent) => { if (event.metaKey || event.ctrlKey) return; event.preventDefault(); this.toExchange(at); } },
      },
        h("span", { class: "exchange-title", dir: "auto", text: visible(one.title || "(no words)") }),
        h("span", { class: "exchange-facts", text: facts.filter((fact) => fact !== "").join(" · ") }),
        one.errors > 0 ? h("span", { class: "outcome bad", text: count(one.errors, "failure") }) : null));
  }

  private exchangeStanding(at: number): string {
    const log = this.log!;
    const from = log.exchanges[at]!.first;
    const to = log.exchanges[at + 1]?.first ?? log.items.length;
    const order = ["changed", "doubted", "unsealed", "unknown", "redacted", "pending", "none", "sealed"];
    let worst = order.length - 1;
    for (let i = from; i < to && i < from + 400; i++) worst = Math.min(worst, order.indexOf(log.standing(log.items[i]!)));
    return order[worst]!;
  }

  private toExchange(at: number): void {
    const first = this.log!.exchanges[at]?.first;
    if (first === undefined) return;
    let row = this.rowOfItem.get(first);
    for (let i = first; row === undefined && i < this.log!.items.length; i++) row = this.rowOfItem.get(i);
    this.element.classList.remove("side-open");
    if (row !== undefined) this.select(row, "top");
  }

  private scrolled(): void {
    const first = this.conversation.first();
    if (first === this.firstRow) return;
    this.firstRow = first;
    this.tail.hidden = this.conversation.atEnd();
    const row = this.rows[first];
    if (row === undefined || !("item" in row)) return;
    const exchange = this.log!.items[row.item]?.exchange ?? -1;
    if (exchange === this.exchange) return;
    this.exchange = exchange;
    this.rail.scroller.querySelector(".exchange.now")?.classList.remove("now");
    this.rail.element(exchange)?.classList.add("now");
  }

  // ------------------------------------------------------------------------------- search, filters

  private toolbar(): HTMLElement {
    const filters = h("div", { class: "filters", role: "group", "aria-label": "Shown kinds" });
    for (const filter of FILTERS) {
      filters.appendChild(button(filter.label, { class: "filter", "aria-pressed": "true", "data-filter": filter.name, on: { click: (event: MouseEvent) => this.filter(filter.name, event.currentTarget as HTMLElement) } }));
    }
    const only = (label: string, name: "onlyErrors" | "onlyChanged"): HTMLElement => button(label, {
      class: "filter only", "aria-pressed": "false", on: { click: (event: MouseEvent) => { this[name] = !this[name]; (event.currentTarget as HTMLElement).setAttribute("aria-pressed", String(this[name])); this.rebuilt(); } },
    });
    filters.append(only("Only failures", "onlyErrors"), only("Only file changes", "onlyChanged"));
    return h("div", { class: "toolbar" }, h("div", { class: "search", role: "search" }, icon("search"), this.input, this.status), filters);
  }

  private filter(name: string, control: HTMLElement): void {
    if (this.hidden.has(name)) this.hidden.delete(name);
    else this.hidden.add(name);
    control.setAttribute("aria-pressed", String(!this.hidden.has(name)));
    this.rebuilt();
  }

  private clearFilters(): void {
    this.hidden.clear();
    this.onlyErrors = this.onlyChanged = false;
    for (const control of this.element.querySelectorAll(".filter")) control.setAttribute("aria-pressed", String(!control.classList.contains("only")));
    if (this.matches !== null) this.clearSearch();
    this.rebuilt();
  }

  private rebuilt(): void {
    const first = this.rows[this.conversation.first()];
    this.buildRows();
    this.current = -1;
    this.conversation.reset();
    if (first !== undefined && "item" in first) {
      let row = this.rowOfItem.get(first.item);
      for (let i = first.item; row === undefined && i < this.log!.items.length; i++) row = this.rowOfItem.get(i);
      if (row !== undefined) this.conversation.scrollTo(row, "top");
    }
  }

  private searchSoon(): void {
    clearTimeout(this.searchTimer);
    this.searchTimer = window.setTimeout(() => void this.search(), SEARCH_DELAY);
  }

  private searchFor(query: string): void {
    this.input.value = query;
    void this.search();
  }

  private async search(): Promise<void> {
    const query = this.input.value.trim();
    if (query === "") return this.clearSearch();
    const found = await this.find(query);
    if (found === null || this.input.value.trim() !== query) return;
    this.words = query;
    this.matches = new Set(found.items);
    this.matchList = [...found.items];
    this.matchAt = -1;
    this.status.textContent = `${count(found.items.length, "match", "matches")} in ${duration(found.milliseconds)}`;
    this.status.dataset["milliseconds"] = String(found.milliseconds);
    this.buildRows();
    this.current = -1;
    this.conversation.reset();
    this.conversation.scrollTo(0, "top");
    this.tail.hidden = this.conversation.atEnd();
  }

  /** `turn 3` is a place; all else are words. */
  private async find(query: string): Promise<Timed | null> {
    const { turns, items } = this.log!;
    const turn = /^turn (\d{1,9})$/i.exec(query)?.[1];
    const line = /^line (\d{1,9})$/i.exec(query)?.[1];
    if (turn === undefined && line === undefined) return this.log!.search(query).catch(() => null);
    const begun = performance.now();
    const isThere = (item: Item): boolean => (turn !== undefined ? turns.has(item, Number(turn)) : item.line === Number(line) || item.resultLine === Number(line));
    const there = items.filter((item) => !item.replaced && isThere(item));
    return { items: Uint32Array.from(there, (item) => item.i), milliseconds: performance.now() - begun };
  }

  private clearSearch(): void {
    if (this.matches === null) return;
    const at = this.rows[this.current];
    this.words = "";
    this.matches = null;
    this.input.value = "";
    this.status.textContent = "";
    this.buildRows();
    this.conversation.reset();
    if (at !== undefined && "item" in at) this.select(this.rowOfItem.get(at.item) ?? 0, "middle");
  }

  /** Down goes to the first match; Enter shows it among its neighbours; Escape ends the search. */
  private searchKey(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.clearSearch();
      this.conversation.scroller.focus();
    } else if (event.key === "ArrowDown") {
      this.select(0, "near");
    } else if (event.key === "Enter" && this.matchList.length > 0) {
      this.matchAt = (this.matchAt + (event.shiftKey ? this.matchList.length - 1 : 1)) % this.matchList.length;
      const item = this.matchList[this.matchAt]!;
      this.matches = null;
      this.buildRows();
      this.conversation.reset();
      const row = this.rowOfItem.get(item);
      if (row !== undefined) {
        this.conversation.scrollTo(row, "middle");
        this.setCurrent(row);
      }
      this.status.textContent = `Match ${this.matchAt + 1} of ${this.matchList.length}`;
    } else return;
    event.preventDefault();
  }

  // --------------------------------------------------------------------------------------- actions

  private async prove(i: number): Promise<void> {
    const item = this.log!.items[i]!;
    try {
      const { bytes: proof, answers } = await this.log!.prove(item);
      const bad = answers.find((one) => one.report === null || !["verified", "unknown_signer"].includes(one.report.verdict));
      if (answers.length === 0 || bad !== undefined) throw new Error(`the new proof was not confirmed: ${bad?.report?.verdict ?? bad?.error ?? "no answer"}`);
      const place = this.log!.turns.words(item);
      const name = `${this.log!.name.split("/").at(-1)}-${place.replace(/[^a-z0-9]+/g, "-")}.turn-proof`;
      download(name, proof);
      this.flash(i, `A proof of ${place} was made, checked and saved: ${bytes(proof.length)}. Send that file; the receiver checks it: threadseal check-proof ${name}.`);
    } catch (error) {
      this.flash(i, `No proof: ${error instanceof Error ? error.message : String(error)}.`);
    }
  }

  private async copyLink(i: number): Promise<void> {
    const item = this.log!.items[i]!;
    const link = new URL(routeText({ page: "session", id: this.options.id, log: this.log!.name, turn: this.log!.turns.linked(item) }), location.href).href;
    const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false);
    this.flash(i, copied === true ? "The link was copied." : link);
  }

  private flash(i: number, words: string): void {
    announce(words);
    const before = this.answer?.item;
    this.answer = { item: i, words };
    if (before !== undefined && before !== i) this.refresh(before);
    this.refresh(i);
  }

  private openAgent(i: number): void {
    const agent = this.log!.items[i]!.agent!;
    const row = this.info!.logs.find((one) => one.log.endsWith(agent) || one.log.includes(agent));
    if (row === undefined) return this.flash(i, "The subagent's log is not here.");
    this.options.go({ page: "session", id: this.options.id, log: row.log, turn: null });
  }

  // ------------------------------------------------------------------------------------------ keys

  readonly keys = [
    ["/", "search"], ["j, k", "next, previous row"], ["[, ]", "previous, next exchange"], ["o or Enter", "open or fold a row"], ["r", "the line as it is in the file"],
    ["p", "download a proof of the turn"], ["t", "open or fold all reasoning"], ["c", "what is proved"], ["g, G", "first, last row"],
  ] as const;

  key(event: KeyboardEvent): boolean {
    const at = this.current < 0 ? this.conversation.first() : this.current;
    const row = this.rows[at];
    const i = row !== undefined && "item" in row ? row.item : null;
    switch (event.key) {
      case "/":
        this.input.focus();
        this.input.select();
        return true;
      case "j":
        this.select(Math.min(this.rows.length - 1, this.current < 0 ? at : at + 1), "near");
        return true;
      case "k":
        this.select(Math.max(0, at - 1), "near");
        return true;
      case "]":
      case "[":
        this.step(i, event.key === "]" ? 1 : -1);
        return true;
      case "o":
      case "Enter":
        if (event.key === "Enter" && (event.target as HTMLElement).closest("button,a,input,textarea") !== null) return false;
        if (i !== null) void this.toggle(this.opened, i);
        return i !== null;
      case "r":
        if (i !== null) void this.toggle(this.raw, i);
        return true;
      case "p":
        if (i !== null) void this.prove(i);
        return true;
      case "t":
        this.toggleReasoning();
        return true;
      case "c":
        this.banner?.toggle();
        return true;
      case "g":
        this.select(0, "top");
        return true;
      case "G":
        this.conversation.toEnd();
        this.select(this.rows.length - 1, "near");
        return true;
      default:
        return false;
    }
  }

  private step(i: number | null, by: number): void {
    const now = i === null ? -1 : this.log!.items[i]!.exchange;
    this.toExchange(Math.max(0, Math.min(this.log!.exchanges.length - 1, now + by)));
  }

  private toggleReasoning(): void {
    const shown = this.rows.flatMap((row) => ("item" in row && this.log!.items[row.item]!.kind === "reasoning" ? [row.item] : [])).slice(0, MAX_FULL);
    const isOpen = shown.some((i) => this.opened.has(i));
    for (const i of shown) if (this.opened.has(i) === isOpen) void this.toggle(this.opened, i);
  }

  /** On paper each row is open, with all that was read of it. */
  print(isPrinting: boolean): void {
    this.isPrinting = isPrinting;
    this.banner?.print(isPrinting);
    this.conversation.print(isPrinting);
  }
}

function isFoldedKind(item: Item): boolean {
  return item.kind !== "user" && item.kind !== "assistant";
}
