// The list of all sessions: filters and search as one types, in the page; words inside sessions are asked of the server.

import { fold, placesOf } from "../fold.js";
import type { Home, ServerHit, SessionRow } from "../home.js";
import { button, foreign, h, icon, replace, visible } from "./dom.js";
import { age, count, money, short, when } from "./format.js";
import { type Page, type Route, routeText } from "./page.js";
import { LIGHT_ICON, type Light } from "./verdict.js";
import { VirtualList } from "./virtual.js";

type SortName = "updated" | "turns" | "tokens" | "cost";
type SelectName = "agent" | "project" | "state" | "kind";

const SORTS: readonly (readonly [SortName, string])[] = [["updated", "Newest"], ["tokens", "Most tokens"], ["cost", "Highest cost"], ["turns", "Most turns"]];
const AGES: readonly (readonly [string, string, number])[] = [["", "Any time", Infinity], ["1", "Last day", 1], ["7", "Last 7 days", 7], ["30", "Last 30 days", 30], ["365", "Last year", 365]];
const ALL: Readonly<Record<SelectName, string>> = { agent: "All agents", project: "All projects", state: "All states", kind: "All kinds" };
const CONTENT_DELAY = 250;
const ROW_HEIGHT = 62;
const MAX_OPTIONS = 500;
/** Between two looks at what changed. */
const LIVE_DELAY = 2000;
/** Beyond so many changed sessions the whole list is read again. */
const MAX_REFRESHED = 20;

/** A session of the list. Its words and its time are made when something asks for them. */
class Entry {
  private folded: string | null = null;
  private moment: number | null = null;

  constructor(readonly row: SessionRow) {}

  get words(): string {
    const { title, project, agent, model, id, state_text: state } = this.row;
    return (this.folded ??= fold(`${title ?? ""}\n${project ?? ""}\n${agent}\n${model ?? ""}\n${id}\n${state}`));
  }

  get time(): number {
    return (this.moment ??= this.row.updated === null ? NaN : Date.parse(this.row.updated));
  }
}

export class ListPage implements Page {
  readonly element = h("div", { class: "list-page" });
  readonly title = "Sessions";
  readonly keys = [["/", "search"], ["j, k", "next, previous session"], ["Enter", "open"], ["c", "choose for a comparison"]] as const;
  /** As the server has them: the newest first. */
  private all: Entry[] = [];
  private readonly byId = new Map<string, Entry>();
  private shown: Entry[] = [];
  private readonly counts: Readonly<Record<SelectName, Map<string, number>>> = { agent: new Map(), project: new Map(), state: new Map(), kind: new Map() };
  private hasCosts = false;
  private total = 0;
  private isRead = false;
  private error: string | null = null;
  private current = -1;
  private sort: SortName = "updated";
  private chosen: string[] = [];
  private timer = 0;
  private liveTimer = 0;
  private readonly changedIds = new Set<string>();
  private readonly endLive: () => void;
  private readonly list: VirtualList;
  private readonly status = h("span", { class: "list-count", role: "status" });
  private readonly input = h("input", { type: "search", class: "search-input", placeholder: "Search sessions", "aria-label": "Search sessions", title: "Words of the title, project, agent, model or state, and words inside sessions", autocomplete: "off", spellcheck: "false" });
  private readonly selects: Readonly<Record<SelectName, HTMLSelectElement>> = { agent: select("Agent"), project: select("Project"), state: select("State"), kind: select("Kind") };
  private readonly ages = select("Time");
  private readonly cost = h("input", { type: "number", min: 0, step: "0.01", class: "cost-input", "aria-label": "Cost of at least, in dollars", placeholder: "≥ $", hidden: true });
  private readonly hits = h("section", { class: "hits", "aria-label": "Words inside sessions", hidden: true });
  private readonly compare = h("div", { class: "compare-bar", role: "group", "aria-label": "Comparison", hidden: true });
  private readonly none = h("section", { class: "none", "aria-label": "No sessions", hidden: true });

  constructor(private readonly home: Home, query: string, private readonly go: (route: Route) => void) {
    this.list = new VirtualList({ count: () => this.shown.length, guess: () => ROW_HEIGHT, render: (at) => this.render(at) }, { class: "virtual sessions", role: "list", "aria-label": "Sessions" });
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
    for (const [name, element] of Object.entries(this.selects)) {
      element.hidden = true;
      element.appendChild(h("option", { value: "", text: ALL[name as SelectName] }));
    }
    replace(this.ages, ...AGES.map(([value, label]) => h("option", { value, text: label })));
    for (const one of [...Object.values(this.selects), this.ages]) one.addEventListener("change", () => this.filter());
    this.cost.addEventListener("input", () => this.filter());
    const sorts = select("Order");
    replace(sorts, ...SORTS.map(([value, label]) => h("option", { value, text: label })));
    sorts.addEventListener("change", () => {
      this.sort = sorts.value as SortName;
      this.filter();
    });
    const names = ["", "Session", "Turns", "Calls", "Tokens", "Cost", "State", "Age", ""];
    this.element.append(
      h("header", { class: "list-head" },
        h("h1", {}, brand(), h("span", { text: "Sessions" }), this.status),
        h("nav", { class: "top-nav", "aria-label": "Pages" }, h("a", { href: routeText({ page: "verify" }) }, icon("drop"), "Verify a file"))),
      h("div", { class: "toolbar" }, h("div", { class: "search", role: "search" }, icon("search"), this.input),
        h("div", { class: "filters", role: "group", "aria-label": "Filters" }, ...Object.values(this.selects), this.ages, this.cost, sorts)),
      this.compare, this.hits, h("div", { class: "session-columns", "aria-hidden": "true" }, ...names.map((text) => h("span", { text }))), this.list.scroller, this.none,
    );
    this.endLive = home.follow([], { changed: ({ id }) => this.changed(id), gone: () => this.changed(null), again: () => this.changed(null) });
    void this.begin();
  }

  private async begin(): Promise<void> {
    try {
      await this.home.sessions((rows, total) => this.came(rows, total));
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.isRead = true;
    this.fillSelects();
    this.drawStatus();
  }

  /** What came is joined to what is shown; nothing that was there is looked at again. */
  private came(rows: readonly SessionRow[], total: number): void {
    this.total = total;
    const isFirst = this.all.length === 0;
    const fits = this.filters();
    for (const row of rows) {
      if (this.byId.has(row.id)) continue;
      const entry = new Entry(row);
      this.all.push(entry);
      this.byId.set(row.id, entry);
      this.countIn(row);
      if (fits === null || fits(entry)) this.shown.push(entry);
    }
    if (this.sort !== "updated") this.order(this.shown);
    if (isFirst) this.askContent();
    this.list.reset(!isFirst);
    if (isFirst) this.list.draw();
    this.drawStatus();
    document.dispatchEvent(new CustomEvent("listed", { detail: this.all.length }));
  }

  private countIn(row: SessionRow): void {
    for (const name of ["agent", "project", "state", "kind"] as const) {
      const value = row[name];
      if (value !== null && value !== "") this.counts[name].set(value, (this.counts[name].get(value) ?? 0) + 1);
    }
    this.hasCosts ||= row.cost !== null;
  }

  close(): void {
    this.endLive();
    clearTimeout(this.timer);
    clearTimeout(this.liveTimer);
  }

  // ------------------------------------------------------------------------------------------ live

  private changed(id: string | null): void {
    if (id !== null) this.changedIds.add(id);
    if (this.liveTimer === 0) this.liveTimer = window.setTimeout(() => void this.refresh(), LIVE_DELAY);
  }

  /** Reads changed rows again; with a new session among them, or many, the whole list. */
  private async refresh(): Promise<void> {
    const ids = [...this.changedIds];
    this.changedIds.clear();
    try {
      if (ids.length > 0 && ids.length <= MAX_REFRESHED && ids.every((id) => this.byId.has(id))) await this.refreshRows(ids);
      else await this.refreshAll();
    } catch {
      // A server that is away is asked again at the next change.
    }
    this.liveTimer = 0;
    if (this.changedIds.size > 0) this.changed(null);
  }

  private async refreshRows(ids: readonly string[]): Promise<void> {
    const fresh = await Promise.all(ids.map((id) => this.home.session(id)));
    const entries = fresh.map((row) => new Entry(row));
    for (const entry of entries) this.byId.set(entry.row.id, entry);
    const changed = new Set(entries.map((one) => one.row.id));
    this.all = [...entries, ...this.all.filter((one) => !changed.has(one.row.id))];
    this.order(this.all, "updated");
    this.filter();
  }

  private async refreshAll(): Promise<void> {
    const rows: SessionRow[] = [];
    await this.home.sessions((page, total) => {
      rows.push(...page);
      this.total = total;
    });
    this.byId.clear();
    this.hasCosts = false;
    for (const one of Object.values(this.counts)) one.clear();
    this.all = [];
    for (const row of rows) {
      if (this.byId.has(row.id)) continue;
      const entry = new Entry(row);
      this.all.push(entry);
      this.byId.set(row.id, entry);
      this.countIn(row);
    }
    this.fillSelects();
    this.filter();
  }

  // --------------------------------------------------------------------------------------- filters

  /** A choice with one value only is none, and is not shown. */
  private fillSelects(): void {
    for (const [name, element] of Object.entries(this.selects)) {
      const counts = this.counts[name as SelectName];
      const value = element.value;
      const options = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MAX_OPTIONS);
      replace(element, h("option", { value: "", text: ALL[name as SelectName] }), ...options.map(([one, many]) => h("option", { value: one, text: `${visible(one.replaceAll("_", " "))} (${many})` })));
      element.value = counts.has(value) ? value : "";
      element.hidden = counts.size < 2 && element.value === "";
    }
    this.cost.hidden = !this.hasCosts;
  }

  /** Null: nothing is filtered. */
  private filters(): ((entry: Entry) => boolean) | null {
    const words = fold(this.input.value).split(/\s+/).filter((one) => one !== "");
    const { agent, project, state, kind } = this.selects;
    const days = AGES.find(([value]) => value === this.ages.value)?.[2] ?? Infinity;
    const since = days === Infinity ? -Infinity : Date.now() - days * 86_400_000;
    const cost = Number(this.cost.value) || 0;
    if (words.length === 0 && [agent, project, state, kind].every((one) => one.value === "") && days === Infinity && cost === 0) return null;
    return (entry) => {
      const { row } = entry;
      return (agent.value === "" || row.agent === agent.value) && (project.value === "" || row.project === project.value) && (state.value === "" || row.state === state.value)
        && (kind.value === "" || row.kind === kind.value) && (days === Infinity || entry.time >= since) && (cost === 0 || (row.cost ?? 0) >= cost) && words.every((one) => entry.words.includes(one));
    };
  }

  private filter(): void {
    const fits = this.filters();
    this.shown = fits === null ? [...this.all] : this.all.filter(fits);
    if (this.sort !== "updated") this.order(this.shown);
    this.current = -1;
    this.list.reset();
    this.drawStatus();
    this.askContent();
  }

  /** What is not known comes last. */
  private order(entries: Entry[], by: SortName = this.sort): void {
    const value = (entry: Entry): number => {
      const found = by === "updated" ? entry.time : entry.row[by];
      return found === null || Number.isNaN(found) ? -1 : found;
    };
    entries.sort((a, b) => value(b) - value(a));
  }

  private clear(): void {
    this.input.value = this.cost.value = this.ages.value = "";
    for (const one of Object.values(this.selects)) one.value = "";
    this.filter();
    this.input.focus();
  }

  private drawStatus(): void {
    const isFiltered = this.shown.length !== this.all.length;
    const all = Math.max(this.total, this.all.length);
    this.status.textContent = this.error !== null ? "" : this.all.length === 0 && !this.isRead ? "Reading…" : isFiltered ? `${this.shown.length.toLocaleString("en")} of ${all.toLocaleString("en")}` : all.toLocaleString("en");
    const isNone = this.shown.length === 0 && (this.isRead || this.error !== null);
    this.list.scroller.classList.toggle("empty", isNone);
    this.element.classList.toggle("has-none", isNone);
    this.none.hidden = !isNone;
    if (isNone) this.drawNone();
  }

  private drawNone(): void {
    const title = (text: string): HTMLElement => h("h2", { text });
    if (this.error !== null) {
      replace(this.none, title("The list cannot be read"), h("p", { text: `${this.error}. Is the viewer still running in its terminal?` }), button("Reload", { class: "primary", on: { click: () => location.reload() } }));
    } else if (this.all.length === 0) {
      replace(this.none, title("No sessions yet"), h("p", {}, "Sessions of the agents on this machine come here. ", h("code", { text: "threadseal status" }), " shows which agents are recorded, and ", h("code", { text: "threadseal install" }), " lets them seal their sessions."),
        h("p", {}, h("a", { href: routeText({ page: "verify" }), text: "Verify a file that you received" })));
    } else {
      replace(this.none, title("No session matches"), h("p", { text: this.hits.hidden ? "No title, project, agent, model or state has all of these words." : "No title has these words. The turns above do." }),
        button("Clear search and filters", { on: { click: () => this.clear() } }));
    }
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
      replace(this.hits, h("h2", { text: `Inside sessions: ${count(found.hits.length, "turn")}${found.more ? " and more" : ""}` }), h("ul", {}, ...found.hits.slice(0, 50).map((hit) => this.hit(hit, query))));
      this.drawStatus();
    }, CONTENT_DELAY);
  }

  private hit(hit: ServerHit, query: string): HTMLElement {
    const title = this.byId.get(hit.id)?.row.title ?? hit.id;
    const time = hit.time === null ? NaN : Date.parse(hit.time);
    const facts = [hit.role ?? "", Number.isNaN(time) ? "" : `${age(time)} ago`].filter((one) => one !== "").join(" · ");
    return h("li", {}, h("a", { href: routeText({ page: "session", id: hit.id, log: hit.log, turn: hit.turn, query }) },
      h("span", { class: "hit-id" }, foreign(title), facts === "" ? null : h("span", { class: "quiet" }, foreign(facts))), h("span", { class: "hit-words", dir: "auto" }, ...marked(visible(hit.snippet), query)), h("span", { class: "hit-turn", text: `turn ${hit.turn}` })));
  }

  // ------------------------------------------------------------------------------------------ rows

  private render(at: number): HTMLElement {
    const { row, time } = this.shown[at]!;
    const light: Light = row.light;
    const isChosen = this.chosen.includes(row.id);
    const title = visible(row.title ?? "") || "(no words yet)";
    const link = h("a", { class: "session-link", href: routeText(routeOfRow(row)), tabindex: at === Math.max(0, this.current) ? 0 : -1, on: { focus: () => { this.current = at; } } },
      h("span", { class: "session-title", dir: "auto", text: title }),
      h("span", { class: "session-facts" }, foreign(row.agent, { class: "agent" }), row.kind === "session" || row.kind === row.agent ? null : foreign(row.kind), row.project === null ? null : foreign(row.project, { class: "path" }), row.model === null ? null : foreign(row.model, { class: "model" }),
        row.sub_agents > 0 ? h("span", { text: count(row.sub_agents, "subagent") }) : null));
    return h("div", { role: "listitem", class: `session-row${isChosen ? " chosen" : ""}`, "data-light": light, "data-id": row.id },
      h("span", { class: "state-icon" }, icon(LIGHT_ICON[light])), link,
      h("span", { class: "session-numbers" }, figure(row.turns, "turn"), figure(row.tools, "call"), figure(row.tokens, "token", short)),
      h("span", { class: "cost", text: row.cost === null ? DASH : money(row.cost) || "$0" }),
      foreign(row.state_text, { class: "state" }),
      Number.isNaN(time) ? h("span", { class: "age", text: DASH }) : h("time", { class: "age", datetime: new Date(time).toISOString(), title: when(time), text: age(time) }),
      button(isChosen ? `Leave out of the comparison: ${title}` : `Compare: ${title}`, { class: "icon-button compare-button", "aria-pressed": String(isChosen), tabindex: -1, on: { click: () => this.choose(row.id) } }, icon("compare")));
  }

  private choose(id: string): void {
    this.chosen = this.chosen.includes(id) ? this.chosen.filter((one) => one !== id) : [...this.chosen, id].slice(-2);
    this.compare.hidden = this.chosen.length === 0;
    replace(this.compare, h("span", { text: this.chosen.length === 1 ? "Choose a second session to compare." : "Two sessions are chosen." }), ...this.chosen.map((one) => foreign(this.byId.get(one)?.row.title ?? one, { class: "chip", title: one })),
      this.chosen.length === 2 ? button("Compare", { class: "primary", on: { click: () => this.go({ page: "compare", a: this.chosen[0]!, b: this.chosen[1]! }) } }) : null,
      button("Clear", { on: { click: () => { this.chosen = []; this.compare.hidden = true; this.list.repaint(); } } }));
    this.list.repaint();
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

const DASH = "–";

/** A number with its unit, which is seen where the columns have no heads. What is not known is a dash. */
function figure(value: number | null, unit: string, text: (value: number) => string = (one) => one.toLocaleString("en")): HTMLElement {
  return h("span", { class: "figure", "data-unit": unit }, value === null ? DASH : text(value), h("span", { class: "unit", text: ` ${value === 1 ? unit : `${unit}s`}` }));
}

/** Graphs and lineages are drawn; all else is read. */
function routeOfRow(row: SessionRow): Route {
  if (row.kind === "graph" || row.kind === "lineage") return { page: "drawing", kind: row.kind === "graph" ? "graphs" : "lineages", id: row.id };
  return { page: "session", id: row.id, log: null, turn: null };
}

/** The words with each place of the query marked. */
function marked(words: string, query: string): (string | HTMLElement)[] {
  const parts: (string | HTMLElement)[] = [];
  let from = 0;
  for (const [at, to] of placesOf(words, fold(query))) {
    parts.push(words.slice(from, at), h("mark", { text: words.slice(at, to) }));
    from = to;
  }
  return [...parts, words.slice(from)];
}
