// The list of all sessions: filters and search as one types, in the page; words inside sessions are asked of the server.

import type { Home, ServerHit, SessionRow } from "../home.js";
import { button, foreign, h, icon, replace, visible } from "./dom.js";
import { age, count, money, short, when } from "./format.js";
import { type Page, type Route, routeText } from "./page.js";
import { LIGHT_ICON, type Light } from "./verdict.js";
import { VirtualList } from "./virtual.js";

type SortName = "updated" | "turns" | "tokens" | "cost";

const SORTS: readonly (readonly [SortName, string])[] = [["updated", "Newest"], ["tokens", "Most tokens"], ["cost", "Highest cost"], ["turns", "Most turns"]];
const AGES: readonly (readonly [string, string, number])[] = [["", "Any time", Infinity], ["1", "Last day", 1], ["7", "Last 7 days", 7], ["30", "Last 30 days", 30], ["365", "Last year", 365]];
const CONTENT_DELAY = 250;

export class ListPage implements Page {
  readonly element = h("div", { class: "list-page" });
  readonly title = "Sessions";
  readonly keys = [["/", "search"], ["j, k", "next, previous session"], ["Enter", "open"], ["c", "choose for a comparison"]] as const;
  private all: { row: SessionRow; words: string; time: number }[] = [];
  private shown: { row: SessionRow; time: number }[] = [];
  private total = 0;
  private current = -1;
  private sort: SortName = "updated";
  private chosen: string[] = [];
  private timer = 0;
  private endLive: () => void;
  private readonly list: VirtualList;
  private readonly status = h("p", { class: "search-status", role: "status", text: "Reading the list" });
  private readonly input = h("input", { type: "search", class: "search-input", placeholder: "Search by words, project, agent or model", "aria-label": "Search sessions", autocomplete: "off", spellcheck: "false" });
  private readonly selects = { agent: select("Agent"), project: select("Project"), state: select("State"), kind: select("Kind") };
  private readonly ages = select("Time");
  private readonly cost = h("input", { type: "number", min: 0, step: "0.01", class: "cost-input", "aria-label": "Cost of at least, in dollars", placeholder: "≥ $" });
  private readonly hits = h("section", { class: "hits", "aria-label": "Words inside sessions", hidden: true });
  private readonly compare = h("div", { class: "compare-bar", hidden: true });

  constructor(private readonly home: Home, query: string, private readonly go: (route: Route) => void) {
    this.list = new VirtualList({ count: () => this.shown.length, guess: () => 66, render: (at) => this.render(at) }, { class: "virtual sessions", role: "list", "aria-label": "Sessions" });
    this.input.value = query;
    this.input.addEventListener("input", () => this.filter());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") {
        this.select(0);
        event.preventDefault();
      } else if (event.key === "Escape") {
        this.input.value = "";
        this.filter();
      }
    });
    replace(this.ages, ...AGES.map(([value, label]) => h("option", { value, text: label })));
    for (const one of [...Object.values(this.selects), this.ages]) one.addEventListener("change", () => this.filter());
    this.cost.addEventListener("input", () => this.filter());
    const sorts = select("Order");
    replace(sorts, ...SORTS.map(([value, label]) => h("option", { value, text: label })));
    sorts.addEventListener("change", () => {
      this.sort = sorts.value as SortName;
      this.filter();
    });
    this.element.append(
      h("header", { class: "list-head" },
        h("h1", {}, brand(), "Sessions"),
        h("nav", { class: "top-nav", "aria-label": "Pages" }, h("a", { href: routeText({ page: "verify" }) }, icon("drop"), "Verify a file"))),
      h("div", { class: "toolbar" }, h("div", { class: "search", role: "search" }, icon("search"), this.input, this.status),
        h("div", { class: "filters", role: "group", "aria-label": "Filters" }, ...Object.values(this.selects), this.ages, this.cost, sorts)),
      this.compare, this.hits, this.list.scroller,
    );
    this.endLive = home.live((change) => this.changed(change.id));
    void this.begin();
  }

  private async begin(): Promise<void> {
    try {
      await this.home.sessions((rows, total) => {
        this.total = total;
        for (const row of rows) this.all.push({ row, words: wordsOf(row), time: timeOf(row.updated) });
        this.fillSelects();
        this.filter();
        document.dispatchEvent(new CustomEvent("listed", { detail: this.all.length }));
      });
    } catch (error) {
      replace(this.status, `The list cannot be read: ${error instanceof Error ? error.message : String(error)}.`);
    }
  }

  close(): void {
    this.endLive();
    clearTimeout(this.timer);
  }

  private changed(id: string): void {
    const found = this.all.find((one) => one.row.id === id);
    if (found === undefined) return;
    found.time = Date.now();
    this.filter();
  }

  private fillSelects(): void {
    for (const [name, element] of Object.entries(this.selects)) {
      const member = name as "agent" | "project" | "state" | "kind";
      const counts = new Map<string, number>();
      for (const { row } of this.all) counts.set(row[member] ?? "", (counts.get(row[member] ?? "") ?? 0) + 1);
      const value = element.value;
      const label = { agent: "All agents", project: "All projects", state: "All states", kind: "All kinds" }[member];
      const options = [...counts].filter(([one]) => one !== "").sort((a, b) => b[1] - a[1]).slice(0, 500);
      replace(element, h("option", { value: "", text: label }), ...options.map(([one, many]) => h("option", { value: one, text: `${visible(one.replaceAll("_", " "))} (${many})` })));
      element.value = value;
    }
  }

  private filter(): void {
    const words = this.input.value.toLowerCase().split(/\s+/).filter((one) => one !== "");
    const { agent, project, state, kind } = this.selects;
    const days = AGES.find(([value]) => value === this.ages.value)?.[2] ?? Infinity;
    const since = days === Infinity ? -Infinity : Date.now() - days * 86_400_000;
    const cost = Number(this.cost.value) || 0;
    const kept = this.all.filter(({ row, words: text, time }) => (agent.value === "" || row.agent === agent.value) && (project.value === "" || row.project === project.value)
      && (state.value === "" || row.state === state.value) && (kind.value === "" || row.kind === kind.value) && (time >= since || Number.isNaN(time)) && (cost === 0 || (row.cost ?? 0) >= cost)
      && words.every((one) => text.includes(one)));
    kept.sort((a, b) => (this.sort === "updated" ? b.time - a.time : (b.row[this.sort] ?? 0) - (a.row[this.sort] ?? 0)));
    this.shown = kept;
    this.current = -1;
    const isFiltered = kept.length !== this.all.length;
    this.status.textContent = isFiltered ? `${count(kept.length, "session")} of ${this.total.toLocaleString("en")}` : count(this.total, "session");
    this.list.reset();
    this.list.scroller.classList.toggle("empty", kept.length === 0);
    this.askContent();
  }

  /** Words inside sessions: the server has an index of them. */
  private askContent(): void {
    clearTimeout(this.timer);
    const query = this.input.value.trim();
    if (!this.home.isServed || query.length < 2) {
      this.hits.hidden = true;
      return;
    }
    this.timer = window.setTimeout(async () => {
      const found = await this.home.search(query).catch(() => ({ hits: [] as readonly ServerHit[], more: false }));
      if (this.input.value.trim() !== query) return;
      this.hits.hidden = found.hits.length === 0;
      replace(this.hits, h("h2", { text: `Inside sessions: ${count(found.hits.length, "turn")}${found.more ? " and more" : ""}` }),
        h("ul", {}, ...found.hits.slice(0, 50).map((hit) => h("li", {}, h("a", { href: routeText({ page: "session", id: hit.id, log: hit.log, turn: hit.turn, query }) },
          foreign(hit.id, { class: "hit-id" }), h("span", { class: "hit-words", dir: "auto", text: visible(hit.snippet) }), h("span", { class: "quiet", text: `#${hit.turn}` }))))));
    }, CONTENT_DELAY);
  }

  private render(at: number): HTMLElement {
    const { row, time } = this.shown[at]!;
    const light: Light = row.light;
    const facts = [count(row.turns, "turn"), row.tools > 0 ? count(row.tools, "call") : "", row.tokens > 0 ? `${short(row.tokens)} tokens` : "", row.sub_agents > 0 ? count(row.sub_agents, "subagent") : "", row.kind === "session" ? "" : row.kind];
    const isChosen = this.chosen.includes(row.id);
    const link = h("a", { class: "session-link", href: routeText({ page: "session", id: row.id, log: null, turn: null }), tabindex: at === Math.max(0, this.current) ? 0 : -1, on: { focus: () => { this.current = at; } } },
      h("span", { class: "session-title", dir: "auto", text: visible(row.title) || "(no words yet)" }),
      h("span", { class: "session-facts" }, foreign(row.agent, { class: "agent" }), row.project === null ? null : foreign(row.project, { class: "path" }), row.model === null ? null : foreign(row.model, { class: "model" })));
    return h("div", { role: "listitem", class: `session-row${isChosen ? " chosen" : ""}`, "data-light": light, "data-id": row.id },
      h("span", { class: "state-icon" }, icon(LIGHT_ICON[light])), link,
      h("span", { class: "session-numbers", text: facts.filter((one) => one !== "").join(" · ") }),
      h("span", { class: "state", text: row.state_text }),
      h("span", { class: "cost", text: row.cost === null ? "" : money(row.cost) }),
      Number.isNaN(time) ? h("span") : h("time", { datetime: new Date(time).toISOString(), title: when(time), text: age(time) }),
      button(isChosen ? `Leave out of the comparison: ${visible(row.title)}` : `Compare: ${visible(row.title)}`, { class: "icon-button compare-button", "aria-pressed": String(isChosen), tabindex: -1, on: { click: () => this.choose(row.id) } }, icon("compare")));
  }

  private choose(id: string): void {
    this.chosen = this.chosen.includes(id) ? this.chosen.filter((one) => one !== id) : [...this.chosen, id].slice(-2);
    this.compare.hidden = this.chosen.length === 0;
    replace(this.compare, h("span", { text: this.chosen.length === 1 ? "Choose a second session to compare." : "Two sessions are chosen." }), ...this.chosen.map((one) => foreign(one, { class: "chip" })),
      this.chosen.length === 2 ? button("Compare", { class: "primary", on: { click: () => this.go({ page: "compare", a: this.chosen[0]!, b: this.chosen[1]! }) } }) : null,
      button("Clear", { on: { click: () => { this.chosen = []; this.compare.hidden = true; this.list.reset(); } } }));
    this.list.reset();
  }

  private select(at: number): void {
    if (at < 0 || at >= this.shown.length) return;
    this.current = at;
    this.list.scrollTo(at, "near");
    this.list.element(at)?.querySelector<HTMLElement>("a")?.focus({ preventScroll: true });
  }

  key(event: KeyboardEvent): boolean {
    switch (event.key) {
      case "/":
        this.input.focus();
        this.input.select();
        return true;
      case "j":
      case "ArrowDown":
        this.select(this.current + 1);
        return true;
      case "k":
      case "ArrowUp":
        this.select(Math.max(0, this.current - 1));
        return true;
      case "c": {
        const row = this.shown[this.current]?.row;
        if (row !== undefined) this.choose(row.id);
        return row !== undefined;
      }
      default:
        return false;
    }
  }

  print(isPrinting: boolean): void {
    this.list.print(isPrinting);
  }
}

export function brand(): HTMLElement {
  return h("span", { class: "brand" }, icon("seal"), h("span", { text: "ThreadSeal" }));
}

function select(label: string): HTMLSelectElement {
  return h("select", { "aria-label": label });
}

function timeOf(value: string | number | null): number {
  if (value === null) return NaN;
  if (typeof value === "number") return value > 1e11 ? value : value * 1000;
  return Date.parse(value);
}

function wordsOf(row: SessionRow): string {
  return `${row.title}\n${row.project ?? ""}\n${row.agent}\n${row.model ?? ""}\n${row.id}\n${row.state_text}`.toLowerCase();
}
