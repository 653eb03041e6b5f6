// Graphs, chains of continued sessions and lineages, drawn: layers from top to bottom, with an order that crosses little.

import type { Drawing, Home } from "../home.js";
import { foreign, h, icon, replace, svg, visible } from "./dom.js";
import { count } from "./format.js";
import { type Page, routeText } from "./page.js";

const WIDTH = 190;
const HEIGHT = 46;
const GAP_X = 28;
const GAP_Y = 44;
const MAX_NODES = 2000;

export class DrawingPage implements Page {
  readonly element = h("div", { class: "drawing-page" });
  readonly title: string;
  readonly keys = [] as const;

  constructor(home: Home, kind: "graphs" | "lineages", id: string) {
    this.title = kind === "graphs" ? "Graph" : "Lineage";
    const body = h("div", { class: "drawing-body", tabindex: 0, role: "region", "aria-label": this.title }, h("p", { class: "quiet", text: "Reading." }));
    this.element.append(h("header", { class: "session-head" }, h("div", { class: "head-line" },
      h("a", { class: "icon-button", href: routeText({ page: "list" }), "aria-label": "All sessions", title: "All sessions" }, icon("back")), h("h1", {}, `${this.title} `, foreign(id)))), body);
    home.drawing(kind, id).then((drawing) => replace(body, draw(drawing)), (error: unknown) => replace(body, h("p", { class: "problem", role: "alert", text: `Cannot draw it: ${error instanceof Error ? error.message : String(error)}.` })));
  }

  key(): boolean {
    return false;
  }

  close(): void {
    this.element.remove();
  }
}

function draw(drawing: Drawing): HTMLElement {
  const nodes = drawing.nodes.slice(0, MAX_NODES);
  if (nodes.length === 0) return h("p", { class: "quiet", text: "There is nothing to draw." });
  const places = layout(nodes.map((one) => one.id), drawing.edges);
  const width = Math.max(...[...places.values()].map((one) => one.x)) + WIDTH + 20;
  const height = Math.max(...[...places.values()].map((one) => one.y)) + HEIGHT + 20;
  const label = `${count(nodes.length, "node")}, ${count(drawing.edges.length, "edge")}`;
  const picture = svg("svg", { class: "drawing", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label });
  for (const edge of drawing.edges) {
    const from = places.get(edge.from);
    const to = places.get(edge.to);
    if (from === undefined || to === undefined) continue;
    const x = from.x + WIDTH / 2;
    const y = from.y + HEIGHT;
    const toX = to.x + WIDTH / 2;
    const middle = (y + to.y) / 2;
    picture.appendChild(svg("path", { class: `edge edge-${edge.kind === "fork" ? "fork" : "plain"}`, d: `M${x} ${y}C${x} ${middle} ${toX} ${middle} ${toX} ${to.y}` }));
  }
  for (const node of nodes) {
    const { x, y } = places.get(node.id)!;
    const name = visible(node.label ?? node.id);
    const box = svg("g", { class: `node node-${(node.state ?? "none").replace(/[^a-z]/g, "")}`, transform: `translate(${x} ${y})` }, svg("rect", { width: WIDTH, height: HEIGHT, rx: 8 }));
    const words = svg("text", { x: 12, y: 20 });
    words.textContent = name.length > 24 ? `${name.slice(0, 23)}…` : name;
    const state = svg("text", { x: 12, y: 37, class: "node-state" });
    state.textContent = node.state ?? "";
    const title = svg("title", {});
    title.textContent = name;
    box.append(title, words, state);
    if (node.session === undefined) {
      picture.appendChild(box);
      continue;
    }
    picture.appendChild(svg("a", { href: routeText({ page: "session", id: node.session, log: null, turn: null }) }, box));
  }
  return h("div", {}, h("p", { class: "quiet", text: label }), h("div", { class: "drawing-box" }, picture as unknown as HTMLElement));
}

/** Each node one layer below the lowest of those before it; within a layer by the middle of those. */
function layout(ids: readonly string[], edges: Drawing["edges"]): Map<string, { x: number; y: number }> {
  const before = new Map<string, string[]>(ids.map((id) => [id, []]));
  for (const edge of edges) before.get(edge.to)?.push(edge.from);
  const depth = new Map<string, number>();
  const depthOf = (id: string, path: ReadonlySet<string>): number => {
    const known = depth.get(id);
    if (known !== undefined) return known;
    if (path.has(id) || path.size > MAX_NODES) return 0;
    const inner = new Set(path).add(id);
    const found = Math.max(-1, ...before.get(id)!.filter((one) => before.has(one)).map((one) => depthOf(one, inner))) + 1;
    depth.set(id, found);
    return found;
  };
  for (const id of ids) depthOf(id, new Set());
  const layers: string[][] = Array.from({ length: Math.max(0, ...depth.values()) + 1 }, () => []);
  for (const id of ids) layers[depth.get(id)!]!.push(id);
  const order = new Map<string, number>();
  for (const layer of layers) {
    const weight = (id: string): number => {
      const known = before.get(id)!.map((one) => order.get(one)).filter((one) => one !== undefined);
      return known.length === 0 ? 0 : known.reduce((sum, one) => sum + one, 0) / known.length;
    };
    layer.sort((a, b) => weight(a) - weight(b));
    layer.forEach((id, at) => order.set(id, at));
  }
  const widest = Math.max(...layers.map((layer) => layer.length));
  const places = new Map<string, { x: number; y: number }>();
  layers.forEach((layer, level) => {
    const left = ((widest - layer.length) * (WIDTH + GAP_X)) / 2;
    layer.forEach((id, at) => places.set(id, { x: 10 + left + at * (WIDTH + GAP_X), y: 10 + level * (HEIGHT + GAP_Y) }));
  });
  return places;
}
