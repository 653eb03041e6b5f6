// The page: what it is (served, one file, or a page of verification), which part of it is shown, and its keys.

import type { Assets } from "./client.js";
import { type Trusted, NO_TRUST } from "./core.js";
import { homeOf, openParts } from "./export/open.js";
import { type Boot, fromBase64, gunzip, readBoot } from "./export/format.js";
import { type Home, ServedHome } from "./home.js";
import { ComparePage } from "./ui/compare-page.js";
import { button, h, replace } from "./ui/dom.js";
import { DrawingPage } from "./ui/drawing-page.js";
import { ListPage } from "./ui/list-page.js";
import { type Page, type Route, routeOf, routeText } from "./ui/page.js";
import { SessionPage } from "./ui/session-page.js";
import { VerifyPage } from "./ui/verify-page.js";

declare const FRAMES: readonly string[];
declare const HAS_MODULE: boolean;

const MAX_ASSET_BYTES = 64 * 2 ** 20;

type Start = { readonly mode: "serve"; readonly base: string } | { readonly mode: "verify" } | Boot;

class App {
  private page: Page | null = null;
  private readonly trust: { value: Trusted } = { value: NO_TRUST };
  private home: Home | null = null;
  private readonly help = this.helpDialog();

  constructor(private readonly root: HTMLElement, private readonly start: Start, private readonly assets: Assets) {}

  async begin(): Promise<void> {
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("beforeprint", () => this.page?.print?.(true));
    addEventListener("afterprint", () => this.page?.print?.(false));
    // A file that misses the drop zone must not replace the page.
    for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
    if (this.start.mode === "export") return this.openFile(this.start);
    if (this.start.mode === "serve") this.home = new ServedHome(this.start.base);
    addEventListener("hashchange", () => this.route());
    this.route();
  }

  private show(page: Page): void {
    this.page?.close();
    this.page = page;
    replace(this.root, page.element);
    document.title = `${page.title} · ThreadSeal`;
  }

  private route(): void {
    const route = routeOf(location.hash);
    if (this.home === null || route.page === "verify") return this.show(this.verifyPage());
    const go = (to: Route): void => void (location.hash = routeText(to));
    const home = this.home;
    switch (route.page) {
      case "session":
        return this.show(new SessionPage({ home, assets: this.assets, id: route.id, log: route.log, turn: route.turn, query: route.query ?? null, isReceived: false, trust: this.trust, go }));
      case "compare":
        return this.show(new ComparePage(home, this.assets, this.trust, route.a, route.b));
      case "drawing":
        return this.show(new DrawingPage(home, route.kind, route.id));
      case "search":
        return this.show(new ListPage(home, route.query, go));
      case "list":
        return this.show(new ListPage(home, route.query ?? "", go));
    }
  }

  private verifyPage(): VerifyPage {
    return new VerifyPage({
      assets: this.assets, isServed: this.start.mode === "serve", frames: FRAMES, trust: this.trust,
      show: (home, id) => {
        const page = new SessionPage({ home, assets: this.assets, id, log: null, turn: null, query: null, isReceived: false, trust: this.trust, go: (route) => this.within(home, route) });
        this.show(page);
        page.element.prepend(h("p", { class: "crumb" }, button("Back to verification", { on: { click: () => this.show(this.verifyPage()) } })));
      },
      go: (route) => void (location.hash = routeText(route)),
    });
  }

  /** Pages of files that are held have no server to ask. */
  private within(home: Home, route: Route): void {
    if (route.page !== "session") return;
    this.show(new SessionPage({ home, assets: this.assets, id: route.id, log: route.log, turn: route.turn, query: null, isReceived: this.start.mode === "export", trust: this.trust, go: (to) => this.within(home, to) }));
  }

  // ------------------------------------------------------------------------------------- one file

  private async openFile(boot: Boot): Promise<void> {
    const beside = new Map<string, Uint8Array>();
    const inside = new Map([...document.querySelectorAll('script[type="application/octet-stream"][id^="part-"]')].map((one) => [one.id, one.textContent ?? ""]));
    const open = async (passphrase: string | null): Promise<void> => {
      const opened = await openParts(boot, inside, beside, passphrase);
      if (opened.missing.length > 0) return this.askParts(opened.missing, beside, () => open(passphrase));
      const home = homeOf(opened.index.name, opened.logs);
      const route = routeOf(location.hash);
      const session = route.page === "session" ? route : null;
      this.home = home;
      this.within(home, { page: "session", id: opened.index.name, log: session?.log ?? null, turn: session?.turn ?? null });
      addEventListener("hashchange", () => {
        const next = routeOf(location.hash);
        if (next.page === "session") this.within(home, next);
      });
    };
    try {
      if (boot.lock !== null) this.askPassphrase(open);
      else await open(null);
    } catch (error) {
      replace(this.root, h("p", { class: "problem", role: "alert", text: `This file cannot be opened: ${messageOf(error)}.` }));
    }
  }

  private askPassphrase(open: (passphrase: string) => Promise<void>): void {
    const field = h("input", { type: "password", id: "passphrase", autocomplete: "off" });
    const note = h("p", { class: "note", role: "alert" });
    const submit = async (event: Event): Promise<void> => {
      event.preventDefault();
      note.textContent = "Opening…";
      await open(field.value).catch((error: unknown) => (note.textContent = `Not opened: ${messageOf(error)}.`));
    };
    replace(this.root, h("div", { class: "gate" }, h("h1", { text: "An encrypted session" }), h("p", { text: "It was encrypted with AES-256-GCM under a key from a passphrase. Nothing leaves this page." }),
      h("form", { class: "row", on: { submit } }, h("label", { for: "passphrase", text: "Passphrase" }), field, h("button", { class: "primary", text: "Open" })), note));
    field.focus();
  }

  private askParts(missing: readonly string[], beside: Map<string, Uint8Array>, open: () => Promise<void>): void {
    const input = h("input", { type: "file", multiple: true, id: "files", class: "hidden" });
    const take = async (files: readonly File[]): Promise<void> => {
      for (const file of files) beside.set(file.name, new Uint8Array(await file.arrayBuffer()));
      await open().catch((error: unknown) => replace(this.root, h("p", { class: "problem", role: "alert", text: `This file cannot be opened: ${messageOf(error)}.` })));
    };
    input.addEventListener("change", () => void take([...input.files ?? []]));
    const gate = h("div", { class: "gate" }, h("h1", { text: "Parts in other files" }), h("p", { text: "The session is too large for one file. Drop these files, which came with it:" }),
      h("ul", {}, ...missing.map((one) => h("li", {}, h("code", { text: one })))), input, h("label", { for: "files", class: "primary file-button", text: "Choose files" }));
    gate.addEventListener("drop", (event) => void take([...event.dataTransfer?.files ?? []]));
    replace(this.root, gate);
  }

  // ------------------------------------------------------------------------------------------ keys

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    if (target.closest("input,textarea,select") !== null) return;
    if (event.key === "?") this.openHelp();
    else if (this.page?.key(event) !== true) return;
    event.preventDefault();
  }

  private helpDialog(): HTMLDialogElement {
    const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" });
    document.body.appendChild(dialog);
    return dialog;
  }

  private openHelp(): void {
    const keys = [...this.page?.keys ?? [], ["?", "this list"], ["Esc", "close"]] as const;
    replace(this.help, h("h2", { id: "help-title", text: "Keys" }), h("dl", { class: "keys" }, ...keys.flatMap(([key, what]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: what })])),
      h("form", { method: "dialog" }, h("button", { class: "primary", text: "Close" })));
    this.help.showModal();
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A served page has its worker and module beside it; one file has them inside. */
function assetsOf(start: Start): Assets {
  if (start.mode !== "export") {
    const own = (name: string): string => new URL(name, document.baseURI).href;
    const begin = (): Worker => new Worker(own("worker.js"), { type: "module" });
    // One is begun before it is needed; a list needs none.
    let spare: Worker | null = routeOf(location.hash).page === "session" ? begin() : null;
    return {
      worker: async () => {
        const ready = spare ?? begin();
        spare = null;
        return ready;
      },
      module: once(async () => {
        if (!HAS_MODULE) return null;
        const response = await fetch(own("threadseal_wasm_bg.wasm")).catch(() => null);
        return response?.ok === true ? WebAssembly.compile(await response.arrayBuffer()) : null;
      }),
    };
  }
  let address: Promise<string> | null = null;
  const inside = async (id: string): Promise<Uint8Array | null> => {
    const words = document.getElementById(id)?.textContent ?? "";
    return words === "" ? null : gunzip(fromBase64(words), MAX_ASSET_BYTES);
  };
  return {
    worker: async () => {
      address ??= inside("worker").then((code) => URL.createObjectURL(new Blob([code as Uint8Array<ArrayBuffer>], { type: "text/javascript" })));
      return new Worker(await address);
    },
    module: once(async () => {
      const bytes = await inside("wasm");
      return bytes === null ? null : WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>);
    }),
  };
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => (made ??= make());
}

const root = document.getElementById("app");
const words = document.getElementById("boot")?.textContent;
if (root !== null && words) {
  const start = (words.includes('"mode":"export"') ? readBoot(words) : JSON.parse(words)) as Start;
  const app = new App(root, start, assetsOf(start));
  app.begin().catch((error: unknown) => replace(root, h("p", { class: "problem", role: "alert", text: `The page cannot begin: ${messageOf(error)}.` })));
}
