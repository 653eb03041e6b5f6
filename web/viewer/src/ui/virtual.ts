// A list of rows with heights of their own, of which only those in sight are in the page. Heights are guessed until a row
// was seen; then the place on the screen of what is read stays where it is.

import { h } from "./dom.js";

/** Rows that are made before they are in sight, in pixels; so many of them in one frame. */
const OVERSCAN = 600;
const MAX_AHEAD = 2;
/** Browsers lay out no taller element; beyond it the scroll bar is coarser than the rows. */
const MAX_HEIGHT = 15_000_000;
/** Most rows that are printed. */
const MAX_PRINTED = 20_000;

export interface Rows {
  count(): number;
  guess(at: number): number;
  render(at: number): HTMLElement;
}

export class VirtualList {
  readonly scroller: HTMLElement;
  private readonly space = h("div", { class: "virtual-space" });
  private heights = new Heights(0, () => 0);
  private readonly shown = new Map<number, HTMLElement>();
  private readonly places = new WeakMap<Element, number>();
  private readonly sizes: ResizeObserver;
  private readonly ys = new WeakMap<Element, number>();
  private height = -1;
  private frame = 0;
  private printing = false;

  constructor(private readonly rows: Rows, attributes: { readonly [name: string]: unknown }) {
    this.scroller = h("div", { class: "virtual", tabindex: 0, ...attributes }, this.space);
    this.scroller.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.sizes = new ResizeObserver((entries) => this.resized(entries));
    new ResizeObserver(() => this.schedule()).observe(this.scroller);
  }

  /** The rows changed. `keep`: those that are there are the same, and others came at the end. */
  reset(keep = false): void {
    if (this.printing) return this.print(true);
    this.height = -1;
    const count = this.rows.count();
    if (keep) {
      this.heights.extend(count, (at) => this.rows.guess(at));
      this.schedule();
      return;
    }
    const focused = [...this.shown].find(([, element]) => element === document.activeElement)?.[0];
    this.heights = new Heights(count, (at) => this.rows.guess(at));
    this.clear();
    this.redraw();
    if (focused !== undefined) this.shown.get(focused)?.focus({ preventScroll: true });
  }

  /** All rows look different now, and are as high as they were. */
  repaint(): void {
    if (this.printing) return this.print(true);
    const focused = [...this.shown].find(([, element]) => element === document.activeElement)?.[0];
    this.clear();
    this.redraw();
    if (focused !== undefined) this.shown.get(focused)?.focus({ preventScroll: true });
  }

  /** One row looks different now. */
  refresh(at: number): void {
    const element = this.shown.get(at);
    if (element === undefined) return;
    const focused = element.contains(document.activeElement) && document.activeElement !== element ? (document.activeElement as HTMLElement).dataset["focus"] : undefined;
    const hadFocus = document.activeElement === element;
    this.remove(at, element);
    this.draw();
    const fresh = this.shown.get(at);
    if (hadFocus) fresh?.focus({ preventScroll: true });
    else if (focused !== undefined) fresh?.querySelector<HTMLElement>(`[data-focus="${focused}"]`)?.focus({ preventScroll: true });
  }

  element(at: number): HTMLElement | undefined {
    return this.shown.get(at);
  }

  scrollTo(at: number, where: "top" | "middle" | "near" = "top"): void {
    const view = this.scroller.clientHeight;
    for (let tries = 0; tries < 4; tries++) {
      const top = this.heights.before(at);
      const size = this.heights.at(at);
      const now = this.top();
      if (where === "near" && top >= now + 8 && top + size <= now + view - 8) break;
      const goal = where === "middle" ? top - Math.max(0, (view - size) / 2) : top - 12;
      this.scroller.scrollTop = Math.max(0, goal) / this.factor();
      this.draw();
    }
  }

  /** The first row that is in sight. */
  first(): number {
    return this.heights.find(this.top() + 1);
  }

  atEnd(): boolean {
    return this.scroller.scrollTop + this.scroller.clientHeight >= this.scroller.scrollHeight - 40;
  }

  toEnd(): void {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.draw();
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** All rows in the flow of the page, for paper. */
  print(isPrinting: boolean): void {
    const ended = this.printing && !isPrinting;
    this.printing = isPrinting;
    this.clear();
    this.scroller.classList.toggle("printing", isPrinting);
    if (!isPrinting) {
      if (ended) this.reset();
      else this.draw();
      return;
    }
    this.space.style.removeProperty("height");
    this.height = -1;
    const most = Math.min(this.rows.count(), MAX_PRINTED);
    for (let at = 0; at < most; at++) this.space.appendChild(this.make(at));
    if (most < this.rows.count()) this.space.appendChild(h("p", { text: `${this.rows.count() - most} more rows are not printed.` }));
  }

  /** Now, and not in the next frame: until then the list would be empty, for eyes and for screen readers. */
  private redraw(): void {
    if (this.draw()) this.schedule();
  }

  private schedule(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.draw()) this.schedule();
    });
  }

  private factor(): number {
    return Math.max(1, this.heights.total() / MAX_HEIGHT);
  }

  private top(): number {
    return this.scroller.scrollTop * this.factor();
  }

  /** Draws what is in sight, and some of what may come into sight; true: more of that is left for the next frame. */
  draw(): boolean {
    const view = this.scroller.clientHeight;
    if (this.printing || view === 0) return false;
    const scroll = this.scroller.scrollTop;
    const factor = this.factor();
    const top = scroll * factor;
    // The first row in sight stays where it is, whatever is measured above it.
    const anchor = this.heights.find(top + 1);
    const before = this.heights.before(anchor);
    let moved = 0;
    for (let pass = 0; pass < 3 && this.drawSeen(top + moved, view); pass++) moved = this.heights.before(anchor) - before;
    const isLeft = this.drawAhead(top + moved, view);
    const goal = scroll > 0 ? Math.max(0, scroll + moved / factor) : scroll;
    this.position(goal);
    if (moved !== 0 && goal !== scroll) this.scroller.scrollTop = goal;
    return isLeft;
  }

  /** Measures rows at once, since they are seen in this frame. Whether a height was not as it was guessed. */
  private drawSeen(top: number, view: number): boolean {
    const { from, to } = this.range(top, top + view);
    const fresh = this.missing(from, to);
    for (const at of fresh) this.insert(at);
    let changed = false;
    for (const at of fresh) {
      const size = this.shown.get(at)!.offsetHeight;
      if (size > 0 && this.heights.set(at, size)) changed = true;
    }
    return changed;
  }

  /** Rows that are not seen yet are measured when the browser has laid them out. */
  private drawAhead(top: number, view: number): boolean {
    const seen = this.range(top, top + view);
    const { from, to } = this.range(Math.max(0, top - OVERSCAN), top + view + OVERSCAN);
    for (const [at, element] of this.shown) {
      if ((at < from || at >= to) && !element.contains(document.activeElement)) this.remove(at, element);
    }
    const fresh = [...this.missing(seen.to, to), ...this.missing(from, seen.from).reverse()];
    for (const at of fresh.slice(0, MAX_AHEAD)) this.insert(at);
    return fresh.length > MAX_AHEAD;
  }

  /** The rows between two heights. */
  private range(top: number, end: number): { readonly from: number; readonly to: number } {
    const from = this.heights.find(top);
    let to = from;
    for (let y = this.heights.before(from); to < this.rows.count() && y < end; to++) y += this.heights.at(to);
    return { from, to };
  }

  private missing(from: number, to: number): number[] {
    const found: number[] = [];
    for (let at = from; at < to; at++) if (!this.shown.has(at)) found.push(at);
    return found;
  }

  private make(at: number): HTMLElement {
    const element = this.rows.render(at);
    element.classList.add("virtual-row");
    return element;
  }

  private insert(at: number): void {
    const element = this.make(at);
    this.shown.set(at, element);
    this.places.set(element, at);
    // In the order of the rows, so that the focus moves in it.
    let next: HTMLElement | null = null;
    for (let after = at + 1; next === null && after < at + 64; after++) next = this.shown.get(after) ?? null;
    this.space.insertBefore(element, next);
    this.sizes.observe(element);
  }

  private remove(at: number, element: HTMLElement): void {
    this.sizes.unobserve(element);
    element.remove();
    this.shown.delete(at);
  }

  private clear(): void {
    for (const [at, element] of this.shown) this.remove(at, element);
    this.space.replaceChildren();
  }

  private position(scroll: number): void {
    const factor = this.factor();
    const height = Math.ceil(this.heights.total() / factor);
    if (height !== this.height) this.space.style.setProperty("height", `${height}px`);
    this.height = height;
    const shift = factor === 1 ? 0 : scroll * (1 - factor);
    for (const [at, element] of this.shown) {
      const y = Math.round(this.heights.before(at) + shift);
      if (this.ys.get(element) === y) continue;
      this.ys.set(element, y);
      element.style.setProperty("transform", `translateY(${y}px)`);
    }
  }

  private resized(entries: readonly ResizeObserverEntry[]): void {
    let changed = false;
    const scroll = this.scroller.scrollTop;
    const factor = this.factor();
    const anchor = this.heights.find(scroll * factor + 1);
    const before = this.heights.before(anchor);
    for (const { target } of entries) {
      const at = this.places.get(target);
      const size = (target as HTMLElement).offsetHeight;
      if (at === undefined || this.shown.get(at) !== target || size === 0) continue;
      if (this.heights.set(at, size)) changed = true;
    }
    if (!changed) return;
    const moved = this.heights.before(anchor) - before;
    const goal = scroll > 0 ? Math.max(0, scroll + moved / factor) : scroll;
    this.position(goal);
    if (moved !== 0 && goal !== scroll) this.scroller.scrollTop = goal;
    this.schedule();
  }
}

/** Heights with their sums: a tree of Fenwick. */
class Heights {
  private sizes: Float64Array;
  private tree: Float64Array;
  private sum = 0;
  private count = 0;

  constructor(count: number, guess: (at: number) => number) {
    this.sizes = new Float64Array(Math.max(count, 64));
    this.tree = new Float64Array(this.sizes.length + 1);
    this.extend(count, guess);
  }

  extend(count: number, guess: (at: number) => number): void {
    if (count > this.sizes.length) {
      const sizes = new Float64Array(2 * count);
      sizes.set(this.sizes.subarray(0, this.count));
      this.sizes = sizes;
      this.tree = new Float64Array(sizes.length + 1);
      this.sum = 0;
      const before = this.count;
      this.count = 0;
      for (let at = 0; at < before; at++) this.add(at, sizes[at]!);
      this.count = before;
    }
    for (let at = this.count; at < count; at++) {
      this.sizes[at] = guess(at);
      this.add(at, this.sizes[at]!);
    }
    this.count = count;
  }

  at(at: number): number {
    return this.sizes[at] ?? 0;
  }

  total(): number {
    return this.sum;
  }

  set(at: number, size: number): boolean {
    const by = size - this.sizes[at]!;
    if (Math.abs(by) < 0.5) return false;
    this.sizes[at] = size;
    this.add(at, by);
    return true;
  }

  /** The sum of all before it. */
  before(at: number): number {
    let sum = 0;
    for (let node = Math.min(at, this.count); node > 0; node -= node & -node) sum += this.tree[node]!;
    return sum;
  }

  /** The row at this height. */
  find(y: number): number {
    let node = 0;
    let left = y;
    let step = 1;
    while (2 * step < this.tree.length) step *= 2;
    for (; step > 0; step >>= 1) {
      const next = node + step;
      if (next < this.tree.length && next <= this.count && this.tree[next]! <= left) {
        node = next;
        left -= this.tree[next]!;
      }
    }
    return Math.max(0, Math.min(node, this.count - 1));
  }

  private add(at: number, by: number): void {
    this.sum += by;
    for (let node = at + 1; node < this.tree.length; node += node & -node) this.tree[node]! += by;
  }
}
