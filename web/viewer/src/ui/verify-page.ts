// The verification page: records, proofs, exports and identities are dropped here, and nothing leaves the page.

import DEMO from "../../../verify/demo/record.jsonl";
import type { Assets } from "../client.js";
import { type Answer, type Asked, type Trusted, NO_TRUST } from "../core.js";
import { type Compared, compareFile, homeOf, openParts, rowOf } from "../export/open.js";
import type { HeldLog } from "../home.js";
import { plainTextOf, verifyBytes } from "../open-log.js";
import { isProof, proofLines } from "../read/proof-lines.js";
import { announce, button, foreign, h, icon, replace } from "./dom.js";
import { receivedNote } from "./banner.js";
import { bytes, duration } from "./format.js";
import { IdentityCards } from "./identity-cards.js";
import { brand } from "./list-page.js";
import { type Page, type Route, routeText } from "./page.js";
import { LIGHT_ICON, type Light, codeText, facets, judged } from "./verdict.js";
import { longText } from "./content.js";

/** The key that sealed the demonstration. Its private half is in no one's hands any more. */
const DEMO_KEY = "73fcca56e9152c4af06cf47e2cd65e97656b0b95e69846b4c2f13255aba94b63";
const MAX_FILE_BYTES = 1 << 30;
const EDIT_DELAY = 120;

export interface VerifyOptions {
  readonly assets: Assets;
  readonly isServed: boolean;
  readonly frames: readonly string[];
  readonly trust: { value: Trusted };
  readonly show: (home: ReturnType<typeof homeOf>, id: string) => void;
  readonly go: (route: Route) => void;
}

interface Dropped {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export class VerifyPage implements Page {
  readonly element = h("div", { class: "verify-page", tabindex: -1 });
  readonly title = "Verify";
  readonly keys = [["o", "choose files"]] as const;
  private readonly held: Dropped[] = [];
  private readonly cards: IdentityCards;
  /** The key ids in the seals of all that was judged. */
  private readonly signers = new Set<string>();
  private readonly results = h("div", { class: "results", "aria-live": "polite" });
  private readonly noKey = h("p", { class: "quiet", text: "No key is trusted yet. Drop the signer's identity file to decide whose seals count." });
  private readonly input = h("input", { type: "file", multiple: true, id: "files", class: "hidden" });
  private passphrase: string | null = null;
  private timer = 0;

  constructor(private readonly options: VerifyOptions) {
    this.cards = new IdentityCards({
      signers: () => (this.held.length === 0 ? null : [...this.signers]),
      trusted: () => options.trust.value,
      onTrust: (trusted) => {
        options.trust.value = trusted;
        this.drawKeys();
        void this.judge();
      },
      record: "a record here",
      several: true,
    });
    const zone = h("div", { class: "drop-zone" }, h("span", { class: "drop-icon" }, icon("drop")),
      h("p", { class: "drop-title", text: "Drop a record, a proof, an export or an identity" }),
      h("p", { class: "quiet", text: "A log and its .seal file go together. Everything is judged in this page; nothing leaves it." }),
      this.input, h("label", { for: "files", class: "primary file-button", text: "Choose files" }));
    this.input.addEventListener("change", () => void this.take([...this.input.files ?? []]));
    this.element.append(
      h("header", { class: "list-head" }, h("h1", {}, brand(), "Verify"), options.isServed ? h("nav", { class: "top-nav", "aria-label": "Pages" }, h("a", { href: routeText({ page: "list" }) }, icon("back"), "All sessions")) : null),
      h("div", { class: "verify-body", tabindex: 0, role: "region", "aria-label": "Verification" }, zone, h("div", { class: "key-list" }, this.noKey, this.cards.trustedBox, this.cards.result), this.results, this.attack(), this.about()),
    );
    this.element.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
    this.element.addEventListener("dragleave", () => zone.classList.remove("over"));
    this.element.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      void this.take([...event.dataTransfer?.files ?? []]);
    });
    this.drawKeys();
  }

  key(event: KeyboardEvent): boolean {
    if (event.key !== "o") return false;
    this.input.click();
    return true;
  }

  close(): void {
    clearTimeout(this.timer);
  }

  // ----------------------------------------------------------------------------------------- files

  private async take(files: readonly File[]): Promise<void> {
    const tooLarge: HTMLElement[] = [];
    const identities: Dropped[] = [];
    for (const file of files) {
      if (file.size > MAX_FILE_BYTES) {
        tooLarge.push(problem(file.name, `it has more than ${bytes(MAX_FILE_BYTES)}`));
        continue;
      }
      const one = { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
      if (isIdentity(one)) {
        identities.push(one);
        continue;
      }
      const known = this.held.findIndex((other) => other.name === one.name);
      if (known >= 0) this.held.splice(known, 1);
      this.held.push(one);
    }
    this.input.value = "";
    await this.judge();
    this.results.append(...tooLarge);
    // The records show first which of its keys sealed them.
    for (const one of identities) await this.cards.look(new TextDecoder().decode(one.bytes), one.name);
  }

  private drawKeys(): void {
    this.noKey.hidden = this.options.trust.value.keys.length > 0;
    this.cards.drawTrusted();
  }

  /** Judges everything that was dropped: logs with what is beside them. */
  private async judge(): Promise<void> {
    replace(this.results);
    this.signers.clear();
    for (const one of this.held) {
      if (/\.(seal|bodies|head)$/.test(one.name) || /\.part-\d+$/.test(one.name)) continue;
      const card = h("section", { class: "verdict card", "data-light": "none", "aria-label": `Result for ${one.name}` }, h("p", {}, "Judging ", foreign(one.name), "."));
      this.results.appendChild(card);
      try {
        if (/\.html?$/i.test(one.name)) await this.judgeExport(one, card);
        else await this.judgeRecord(one, card);
      } catch (error) {
        card.replaceWith(problem(one.name, error instanceof Error ? error.message : String(error)));
      }
    }
    const alone = this.held.filter((one) => /\.seal$/.test(one.name) && !this.held.some((other) => other.name === one.name.slice(0, -5)));
    for (const one of alone) this.results.append(h("p", { class: "quiet" }, foreign(one.name), " is a file of seals: drop the log beside it too."));
    this.cards.drawOpen();
  }

  /** Both programs judge it, and its seals show whose identity is asked for. */
  private async verify(asked: Asked, content: Uint8Array): Promise<Answer[]> {
    const answers = await verifyBytes(this.options.assets, asked, content);
    for (const one of answers) for (const signer of one.report?.signers ?? []) this.signers.add(signer.key);
    return answers;
  }

  private beside(name: string): Uint8Array | null {
    return this.held.find((one) => one.name === name)?.bytes ?? null;
  }

  private asked(name: string, seals: Uint8Array | null, bodies: Uint8Array | null, unread: boolean): Asked {
    return { name, seals, bodies, bodiesUnread: unread, trust: this.options.trust.value, head: null };
  }

  private async judgeRecord(one: Dropped, card: HTMLElement): Promise<void> {
    const seals = this.beside(`${one.name}.seal`);
    const bodies = this.beside(one.name.replace(/\.jsonl$/, ".bodies"));
    const answers = await this.verify(this.asked(one.name, seals, bodies, bodies === null), one.bytes);
    const log: HeldLog = { row: rowOf(one.name, null, one.bytes.length), bytes: one.bytes, seals, bodies, bodiesLeftOut: bodies === null };
    const more = isProof(one.bytes) ? [this.showButton(one.name, [log], "Show the turn"), proofContent(one.bytes)] : [this.showButton(one.name, [log])];
    fillCard(card, one.name, answers, ...more);
  }

  private showButton(name: string, logs: readonly HeldLog[], label = "Show the conversation"): HTMLElement {
    return button(label, { class: "primary", on: { click: () => this.options.show(homeOf(name, logs), name) } });
  }

  /** The record inside is judged by this page; what the file shows is compared with it. */
  private async judgeExport(one: Dropped, card: HTMLElement): Promise<void> {
    const compared = await compareFile(new TextDecoder().decode(one.bytes), this.options.frames);
    if (compared.boot.lock !== null && this.passphrase === null) return this.askPassphrase(one, card);
    const beside = new Map(this.held.map((held) => [held.name, held.bytes]));
    const opened = await openParts(compared.boot, compared.parts, beside, this.passphrase);
    if (opened.missing.length > 0) {
      replace(card, h("p", {}, foreign(one.name), ` has parts in other files. Drop them too: ${opened.missing.join(", ")}.`));
      return;
    }
    const notes = exportNotes(compared, await plainTextOf(this.options.assets, opened.logs.map((log) => ({ log: log.row.log, bytes: log.bytes }))));
    const all: { name: string; answers: Answer[] }[] = [];
    for (const log of opened.logs) all.push({ name: log.row.log, answers: await this.verify(this.asked(fileName(log.row.log), log.seals, log.bodies, log.bodiesLeftOut), log.bytes) });
    const worst = all.reduce((a, b) => (rank(judged(b.answers).light) > rank(judged(a.answers).light) ? b : a));
    const list = h("ul", { class: "notes" }, ...notes.map((note) => h("li", { "data-light": note.light }, icon(LIGHT_ICON[note.light]), h("span", { text: note.text }))));
    fillCard(card, one.name, worst.answers, list, this.showButton(opened.index.name, opened.logs));
    if (notes.some((note) => note.light === "red")) {
      card.dataset["light"] = "red";
      card.dataset["forged"] = "true";
      card.querySelector(".verdict-sentence")!.textContent = "This file shows something else than its record: do not rely on how it looks.";
      replace(card.querySelector(".verdict-seal")!, icon(LIGHT_ICON.red));
      card.querySelector(".verdict-line")!.after(h("p", { class: "inner-verdict", text: `The record inside: ${judged(worst.answers).sentence}` }));
      announce("This file shows something else than its record.");
    }
  }

  private askPassphrase(one: Dropped, card: HTMLElement): void {
    const id = `pass-${this.held.indexOf(one)}`;
    const field = h("input", { type: "password", id, autocomplete: "off" });
    const form = h("form", { class: "row", on: { submit: (event: Event) => { event.preventDefault(); this.passphrase = field.value; void this.judge().finally(() => (this.passphrase = null)); } } },
      h("label", { for: id }, foreign(one.name), " is encrypted. Its passphrase:"), field, h("button", { class: "primary", text: "Open" }));
    replace(card, form);
  }

  // ------------------------------------------------------------------------------------ the attack

  /** A record that anybody may attack, line by line. */
  private attack(): HTMLElement {
    const area = h("textarea", { id: "attack", class: "attack-text", rows: 12, spellcheck: "false", autocomplete: "off", wrap: "off", dir: "ltr" });
    area.value = DEMO;
    const result = h("div", { class: "verdict attack-result", "data-light": "none", role: "status" });
    const run = async (): Promise<void> => {
      const trust: Trusted = { ...NO_TRUST, keys: [{ name: "demonstration", usages: ["native"], public: DEMO_KEY }] };
      const answers = await verifyBytes(this.options.assets, { name: "record.jsonl", seals: null, bodies: null, bodiesUnread: false, trust, head: null }, new TextEncoder().encode(area.value));
      fillCard(result, "the record below", answers);
    };
    const soon = (): void => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void run(), EDIT_DELAY);
    };
    area.addEventListener("input", soon);
    const change = (label: string, edit: (lines: string[]) => string[]): HTMLElement => button(label, { on: { click: () => { area.value = edit(DEMO.split("\n")).join("\n"); void run(); } } });
    const box = h("section", { class: "attack", "aria-label": "Attack it yourself" },
      h("h2", { text: "Attack it yourself" }),
      h("p", { text: "This record is real: an agent ran tests, three failed, and each turn was sealed. Change a byte, and see what is reported." }),
      h("div", { class: "row attack-buttons", role: "group", "aria-label": "Attacks" },
        change("Restore", (lines) => lines),
        change("3 failed → 0 failed", (lines) => lines.map((line) => line.replace("3 failed", "0 failed"))),
        change("Cut the end", (lines) => [...lines.slice(0, 10), ""]),
        change("Leave out a line", (lines) => lines.filter((_, at) => at !== 4)),
        change("Swap two lines", (lines) => { const swapped = [...lines]; [swapped[2], swapped[3]] = [swapped[3]!, swapped[2]!]; return swapped; }),
        change("Replay a turn", (lines) => [...lines.slice(0, 7), ...lines.slice(2, 7), ...lines.slice(7)]),
        change("Swap the key", (lines) => lines.map((line, at) => (at === 0 ? line.replace(/"key":"[0-9a-f]{4}/, '"key":"dead') : line)))),
      result, h("label", { for: "attack", text: "The record, one event a line" }), area);
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      void run();
    });
    seen.observe(box);
    return box;
  }

  private about(): HTMLElement {
    return h("section", { class: "about", "aria-label": "About this page" },
      h("h2", { text: "What this page can show" }),
      h("p", { text: "It shows that these bytes are those that a key sealed, in this order, with nothing left out up to the last seal. It does not show that an agent reported the truth." }),
      h("p", { text: "Two programs judge each file: the core in WebAssembly, and a verifier in TypeScript that was written from the specification alone." }),
      h("p", { text: "Take this page from a place that you trust, or host it yourself: it is static, and asks no server for anything." }),
      receivedNote());
  }
}

function isIdentity({ name, bytes: content }: Dropped): boolean {
  return /\.(id|pub|pem)$/i.test(name) || new TextDecoder().decode(content.subarray(0, 34)).startsWith('{"format":"threadseal-identity/1"');
}

/** What the file of a log may be called: by its ending some kinds are recognised. */
function fileName(log: string): string {
  const name = log.replace(/[/:]/g, "-");
  return /\.[a-z0-9]{1,8}$/.test(name) ? name : `${name}.jsonl`;
}

/** What a received file shows, against what this page makes of its record. */
function exportNotes(compared: Compared, own: string | null): { light: Light; text: string }[] {
  const notes: { light: Light; text: string }[] = [];
  notes.push(compared.isKnownFrame ? { light: "green", text: "Its code is that of ThreadSeal, unchanged." }
    : { light: "red", text: "Its code or its frame is not one that this page knows. What it shows when opened may be anything." });
  if (compared.boot.lock !== null) {
    notes.push({ light: "none", text: "Without scripts it shows no text of the session, since it is encrypted." });
    return notes;
  }
  if (own === null) notes.push({ light: "amber", text: "The text that it shows without scripts is not compared: this page has no WebAssembly core." });
  else notes.push(compared.text === own ? { light: "green", text: "The text that it shows without scripts is that of its record." }
    : { light: "red", text: "The text that it shows without scripts is not that of its record." });
  const title = `${compared.boot.index?.name ?? ""} · ThreadSeal`;
  if (compared.title !== title) notes.push({ light: "red", text: "Its title is not that of its record." });
  return notes;
}

function rank(light: Light): number {
  return ["green", "none", "amber", "red"].indexOf(light);
}

function fillCard(card: HTMLElement, name: string, answers: readonly Answer[], ...more: HTMLElement[]): void {
  const judgement = judged(answers);
  const report = answers.find((one) => one.report !== null)?.report ?? null;
  card.dataset["light"] = judgement.light;
  card.dataset["verdict"] = report?.verdict ?? "none";
  const findings = report === null ? [] : report.findings.slice(0, 8);
  replace(card, h("div", { class: "verdict-line" }, h("span", { class: "verdict-seal" }, icon(LIGHT_ICON[judgement.light])), h("p", { class: "verdict-sentence", text: judgement.sentence })),
    h("p", { class: "quiet" }, foreign(name), report === null ? "" : `, ${bytes(report.stats.bytes)}`),
    report === null ? null : h("div", { class: "facets" }, ...facets(report).map((one) => h("div", { class: "facet", "data-light": one.light }, h("p", { class: "facet-title" }, icon(LIGHT_ICON[one.light]), one.name), h("p", { text: one.sentence })))),
    findings.length === 0 ? null : h("ul", { class: "findings" }, ...findings.map((one) => h("li", { "data-severity": one.severity }, h("span", { class: "severity", text: one.severity }), h("span", { text: codeText(one.code) }), h("code", { text: one.code }), one.line === null ? null : h("span", { class: "quiet", text: `line ${one.line}` })))),
    h("p", { class: "quiet engine-line", text: answers.map((one) => `${one.engine}: ${one.report?.verdict ?? one.error ?? "no answer"} (${duration(one.milliseconds)})`).join(" · ") }),
    ...more);
}

/** The lines that a proof shows, as they are. */
function proofContent(content: Uint8Array): HTMLElement {
  const lines = proofLines(content);
  return h("details", {}, h("summary", { text: `What it proves: ${lines.length} ${lines.length === 1 ? "line" : "lines"}` }), ...lines.slice(0, 200).map((line) => longText(pretty(line), "json")));
}

function pretty(line: string): string {
  try {
    return JSON.stringify(JSON.parse(line), null, 2);
  } catch {
    return line;
  }
}

function problem(name: string, cause: string): HTMLElement {
  return h("section", { class: "verdict card", "data-light": "amber", "data-verdict": "none", role: "alert" }, h("div", { class: "verdict-line" }, h("span", { class: "verdict-seal" }, icon("warn")), h("p", { class: "verdict-sentence" }, "No verdict on ", foreign(name), `: ${cause}.`)));
}
