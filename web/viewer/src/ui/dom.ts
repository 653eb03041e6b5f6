// Elements are made here, by name and text alone: no HTML of any text is ever interpreted.

export type Child = Node | string | null | undefined | false;

export interface Attributes {
  readonly class?: string;
  readonly text?: string;
  readonly on?: { readonly [event: string]: (event: any) => void };
  readonly [name: string]: unknown;
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false || name === "on") continue;
    if (name === "text") element.textContent = String(value);
    else if (name === "class") element.className = String(value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, String(value));
  }
  for (const [event, listener] of Object.entries(attributes.on ?? {})) element.addEventListener(event, listener);
  append(element, children);
  return element;
}

export function append(parent: Node, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(typeof child === "string" ? document.createTextNode(child) : child);
  }
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag: string, attributes: { readonly [name: string]: string | number }, ...children: Node[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  for (const child of children) element.appendChild(child);
  return element;
}

/** Shapes of 16 by 16, each one path. */
const ICONS = {
  seal: "M8 1.2l1.7 1.3 2.1-.2.7 2 1.9 1-.5 2.1.9 1.9-1.6 1.4-.3 2.1-2.1.3L9.4 14.8 8 14l-1.9.9-1.4-1.6-2.1-.3-.3-2.1L.9 9.3l.9-1.9-.5-2.1 1.9-1 .7-2 2.1.2zM5.2 8.1l2 2 3.6-3.9",
  warn: "M8 1.8L15 14H1zM8 6.3v3.6M8 11.6v.5",
  cross: "M8 1.2a6.8 6.8 0 100 13.6A6.8 6.8 0 008 1.2zM5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8",
  dash: "M8 1.2a6.8 6.8 0 100 13.6A6.8 6.8 0 008 1.2zM5 8h6",
  chevron: "M6 3.5L10.5 8 6 12.5",
  search: "M7 2a5 5 0 100 10A5 5 0 007 2zM10.8 10.8L14.5 14.5",
  link: "M6.6 9.4l2.8-2.8M7 4.6l1.5-1.5a3 3 0 014.3 4.3L11.3 8.9M9 11.4l-1.5 1.5a3 3 0 01-4.3-4.3L4.7 7.1",
  proof: "M4 1.5h5.5L12.5 4.5v10H4zM9 1.5v3.3h3.4M6.2 9.2l1.5 1.5 2.6-2.9",
  info: "M8 1.2a6.8 6.8 0 100 13.6A6.8 6.8 0 008 1.2zM8 7.2v4M8 4.6v.6",
  back: "M9.5 3L4.5 8l5 5M4.5 8H14",
  menu: "M2 4h12M2 8h12M2 12h12",
  terminal: "M2 3.5l4 4-4 4M8 12h6",
  file: "M4 1.5h5.5L12.5 4.5v10H4zM9 1.5v3.3h3.4",
  edit: "M2.5 13.5l.6-3L10.8 2.8l2.4 2.4-7.7 7.7z",
  agent: "M8 1.5v2M3.5 3.5h9v8h-9zM6 7v1M10 7v1M6 14.5h4",
  web: "M8 1.2a6.8 6.8 0 100 13.6A6.8 6.8 0 008 1.2zM1.4 8h13.2M8 1.2c4 4.4 4 9.2 0 13.6M8 1.2c-4 4.4-4 9.2 0 13.6",
  tool: "M10 2a3.5 3.5 0 00-3.2 4.9L2 11.7 4.3 14l4.8-4.8A3.5 3.5 0 0013.8 5L11.5 6.8 9.4 4.6z",
  thought: "M5 11.5a4 4 0 01-.6-7.9A4.5 4.5 0 0113 5a3.3 3.3 0 01-1.6 6.5zM4 14h.5M6.2 13h.6",
  fold: "M3 6l5-4 5 4M3 10l5 4 5-4",
  hook: "M9 1.5v8a3 3 0 11-6 0V8.5M9 1.5l-2 2M9 1.5l2 2",
  live: "M8 5.8a2.2 2.2 0 100 4.4 2.2 2.2 0 000-4.4zM3.8 12.2a6 6 0 010-8.4M12.2 3.8a6 6 0 010 8.4",
  drop: "M8 1.8v8.4M4.6 6.9L8 10.3l3.4-3.4M2 13.8h12",
  down: "M8 2.5v11M3.8 9.3L8 13.5l4.2-4.2",
  compare: "M2 2.5h4.5v11H2zM9.5 2.5H14v11H9.5z",
  graph: "M4 2a2 2 0 100 4 2 2 0 000-4zM12 6a2 2 0 100 4 2 2 0 000-4zM4 10a2 2 0 100 4 2 2 0 000-4zM4 6v4M6 4.2c2.5.3 3.5 1 4.2 2.3",
} as const;

export type Icon = keyof typeof ICONS;

const drawn = new Map<Icon, SVGElement>();

/** A copy is made sooner than a shape anew. */
export function icon(name: Icon): SVGElement {
  let shape = drawn.get(name);
  if (shape === undefined) {
    shape = svg("svg", { class: `icon icon-${name}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, svg("path", { d: ICONS[name] }));
    drawn.set(name, shape);
  }
  return shape.cloneNode(true) as SVGElement;
}

export function button(label: string, attributes: Attributes, ...children: Child[]): HTMLButtonElement {
  const shown = children.length === 0 ? [label] : children;
  return h("button", { type: "button", "aria-label": children.length === 0 ? undefined : label, title: children.length === 0 ? undefined : label, ...attributes }, ...shown);
}

/** Foreign words in a line of ours: their direction stays their own. */
export function foreign(words: string, attributes: Attributes = {}): HTMLElement {
  return h("bdi", attributes, visible(words));
}

/** With characters that reorder or hide text made visible, for lines where a name or a path is read. */
export function visible(words: string): string {
  return words.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

let announcer: HTMLElement | null = null;

/** Words for readers of the screen. */
export function announce(words: string): void {
  announcer ??= document.body.appendChild(h("div", { class: "announcer", role: "status", "aria-live": "polite" }));
  announcer.textContent = words;
}

export function download(name: string, bytes: Uint8Array, type = "application/octet-stream"): void {
  const url = URL.createObjectURL(new Blob([bytes as Uint8Array<ArrayBuffer>], { type }));
  const link = h("a", { href: url, download: name.replace(/[^\w.#-]+/g, "-") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
