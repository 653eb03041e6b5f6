// The verdict at the top: one sentence, and behind a click what was checked, by whom, and what was not.

import type { Answer, Report, Trusted } from "../core.js";
import { agree } from "../core.js";
import { readGiven } from "../identity.js";
import type { OpenLog } from "../open-log.js";
import { announce, append, button, foreign, h, icon, replace } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { LIGHT_ICON, codeText, facets, isEvidence, judged, nameOf, unproved } from "./verdict.js";

export interface BannerOptions {
  readonly log: OpenLog;
  /** The command's report, where a server has one. */
  readonly serverReport: (() => Promise<unknown>) | null;
  /** Is the page itself a file that anybody could have edited? */
  readonly isReceived: boolean;
  readonly onTrust: (trusted: Trusted) => void;
  readonly onPlace: (line: number) => void;
}

export class Banner {
  readonly element = h("section", { class: "verdict", "aria-label": "Verdict" });
  private isOpen = false;
  private progress = "";
  private given: HTMLElement | null = null;
  private words = "";

  constructor(private readonly options: BannerOptions) {
    this.draw();
  }

  setProgress(done: number, size: number): void {
    const share = size > 0 ? Math.min(100, Math.floor((100 * done) / size)) : 0;
    const words = `Verifying in this page: ${bytes(done)} of ${bytes(Math.max(size, done))}`;
    if (words === this.progress) return;
    this.progress = words;
    const bar = this.element.querySelector<HTMLProgressElement>("progress");
    const line = this.element.querySelector(".verdict-sentence");
    if (bar === null || line === null) return this.draw();
    bar.value = share;
    line.textContent = `${words}.`;
  }

  draw(): void {
    const { log } = this.options;
    const waits = log.answers.length === 0;
    const judgement = waits ? { light: "none" as const, word: "Verifying", sentence: `${this.progress || "Verifying in this page"}.` } : judged(log.answers);
    this.element.dataset["light"] = judgement.light;
    if (judgement.sentence !== this.words && !waits) announce(judgement.sentence);
    this.words = judgement.sentence;
    const toggle = button("What is proved", {
      class: "quiet-button", "aria-expanded": String(this.isOpen), "aria-controls": "checked", "data-checked": true,
      on: { click: () => this.toggle() },
    }, h("span", { text: "What is proved" }), icon("chevron"));
    const line = h("div", { class: "verdict-line" },
      h("span", { class: "verdict-seal" }, icon(LIGHT_ICON[judgement.light])),
      h("p", { class: "verdict-sentence", text: judgement.sentence }),
      waits ? h("progress", { max: 100, value: 0, "aria-label": "Verification" }) : null,
      log.isVerifying && !waits ? h("span", { class: "spinner", role: "img", "aria-label": "Verifying again" }) : null,
      toggle);
    const needsKey = log.report?.verdict === "unknown_signer";
    const detail = h("div", { id: "checked", class: "checked", hidden: !this.isOpen, tabindex: 0, role: "region", "aria-label": "What is proved" });
    replace(this.element, line, this.options.isReceived ? this.ownWord() : null, needsKey ? this.keyPanel() : null, detail);
    if (this.isOpen) this.drawDetail(detail);
  }

  toggle(open = !this.isOpen): void {
    this.isOpen = open;
    this.draw();
    if (open) this.element.querySelector<HTMLElement>("[data-checked]")?.focus({ preventScroll: true });
  }

  /** A received file may be forged as a whole, so that it must not be believed about itself. */
  private ownWord(): HTMLElement {
    const show = (): void => {
      this.toggle(true);
      this.element.querySelector(".received")?.scrollIntoView({ block: "nearest" });
    };
    return h("p", { class: "own-word" }, "This is a received file: its own word is no proof.", button("How to make sure", { class: "link-button", on: { click: show } }));
  }

  private drawDetail(box: HTMLElement): void {
    const report = this.options.log.report;
    if (report !== null) {
      box.appendChild(h("div", { class: "facets" }, ...facets(report, this.sealedAt(report)).map((facet) => h("div", { class: "facet", "data-light": facet.light },
        h("p", { class: "facet-title" }, icon(LIGHT_ICON[facet.light]), facet.name), h("p", { text: facet.sentence })))));
      append(box, [this.findings(report), h("section", { class: "unproved", "aria-label": "What is not proved" }, h("h2", { class: "part-title", text: "What is not proved" }), h("ul", {}, ...unproved(report).map((text) => h("li", { text }))))]);
    }
    if (this.options.isReceived) box.appendChild(receivedNote());
    box.appendChild(h("div", { class: "both" }, this.engines(this.options.log.answers), this.options.serverReport === null ? null : this.server()));
    if (report !== null) box.appendChild(facts(report));
  }

  /** A record that was changed has no time to show. */
  private sealedAt(report: Report): string | null {
    const time = this.options.log.seals.at(-1)?.time ?? null;
    return time === null || isEvidence(report) ? null : new Date(time).toISOString().replace(/\.\d+Z$/, "Z");
  }

  private findings(report: Report): HTMLElement {
    const list = h("ul", { class: "findings", "aria-label": "Findings" });
    for (const one of report.findings) {
      const place = one.line !== null ? `line ${one.line.toLocaleString("en")}` : one.turn !== null ? `turn ${one.turn}` : one.bytes !== null ? `bytes ${one.bytes[0]} to ${one.bytes[1]}` : "";
      const line = one.line;
      list.appendChild(h("li", { "data-severity": one.severity },
        h("span", { class: "severity", text: one.severity }), h("span", { text: codeText(one.code) }), h("code", { text: one.code }),
        line !== null ? button(`Go to ${place}`, { class: "link-button", on: { click: () => this.options.onPlace(line) } }) : place === "" ? null : h("span", { class: "quiet", text: place })));
    }
    return report.findings.length === 0 ? h("p", { class: "quiet no-findings", text: "Nothing was found against it." }) : list;
  }

  /** Both answers, each as it is. */
  private engines(answers: readonly Answer[]): HTMLElement {
    const reports = answers.map((one) => one.report).filter((one) => one !== null);
    const doAgree = reports.every((one) => agree(reports[0]!, one));
    const box = h("section", { class: "engines", "aria-label": "Verifiers in this page" }, h("h2", { class: "part-title", text: "Verified in this page" }));
    const rows = answers.map((one) => h("tr", {},
      h("th", { scope: "row", text: one.engine }), h("td", {}, one.report === null ? h("span", { class: "bad", text: one.error ?? "no answer" }) : h("code", { text: one.report.verdict })),
      h("td", { text: one.report === null ? "" : count(one.report.findings.length, "finding") }), h("td", { text: duration(one.milliseconds) })));
    box.appendChild(h("table", {}, h("thead", {}, h("tr", {}, ...["Verifier", "Verdict", "Findings", "Time"].map((name) => h("th", { scope: "col", text: name })))), h("tbody", {}, ...rows)));
    const words = answers.length < 2 ? "One verifier is built into this page; the second is the core in WebAssembly."
      : reports.length < answers.length ? "One of them has no answer."
        : doAgree ? "Two independent programs give the same answer." : "They disagree: verdict, findings or place differ. One of them, or the specification, is wrong.";
    box.appendChild(h("p", { class: doAgree && answers.length > 1 && reports.length === answers.length ? "good" : answers.length < 2 ? "quiet" : "bad", text: words }));
    return box;
  }

  /** The server's word is shown apart, and on demand. */
  private server(): HTMLElement {
    const box = h("section", { class: "server", "aria-label": "What the server reports" }, h("h2", { class: "part-title", text: "What the server reports" }));
    const answer = h("div");
    const ask = async (): Promise<void> => {
      answer.textContent = "Asking…";
      try {
        const output = await this.options.serverReport!() as { results?: Report[] } | null;
        const reports = output?.results ?? [];
        replace(answer, ...reports.map((one) => h("p", {}, "The command on this machine: ", h("code", { text: one.verdict }), `, ${count(one.findings.length, "finding")}, completeness `, h("code", { text: one.completeness }), ".")));
        if (reports.length === 0) answer.textContent = "It has no report.";
      } catch (error) {
        answer.textContent = error instanceof Error ? error.message : String(error);
      }
    };
    box.appendChild(h("p", { class: "quiet", text: "The server is on this machine, and knows its log too. A page cannot check that, so it is shown apart." }));
    box.appendChild(answer);
    void ask();
    return box;
  }

  private keyPanel(): HTMLElement {
    if (this.given !== null) return this.given;
    const area = h("textarea", { id: "identity", rows: 2, spellcheck: "false", autocomplete: "off", placeholder: "{\"format\":\"threadseal-identity/1\",…}" });
    const note = h("p", { class: "note", role: "status" });
    const take = async (words: string, name: string): Promise<void> => {
      try {
        const given = await readGiven(words, name);
        const before = this.options.log.trustedKeys;
        const keys = [...before.keys.filter((one) => !given.keys.some((other) => other.public === one.public)), ...given.keys];
        replace(note, given.identity === null ? "Using this key." : "Using the identity of ", given.identity === null ? null : foreign(given.identity.name),
          given.identity === null ? null : `. Compare its words over another channel: ${given.identity.words.join(" ")}.`);
        this.options.onTrust({ keys, store: null, identities: given.identity === null ? before.identities : [...before.identities, given.text] });
      } catch (error) {
        note.textContent = `Not used: ${error instanceof Error ? error.message : String(error)}`;
      }
    };
    const file = h("input", { type: "file", id: "identity-file", class: "hidden", "aria-label": "Choose an identity file", on: { change: async () => { const one = file.files?.[0]; if (one !== undefined) await take(await one.text(), one.name); } } });
    const key = this.options.log.report?.signers[0]?.key ?? "";
    this.given = h("details", { class: "key-panel" },
      h("summary", {}, "Whose key is ", h("code", { text: `${key.slice(0, 12)}…` }), "? ", h("span", { class: "link-words", text: "Add the signer's identity" })),
      h("p", { text: "A file cannot prove whose key sealed it. Ask the person who sent it for an identity file, over a channel that you trust: the command “threadseal id export” writes one." }),
      h("label", { for: "identity", text: "Paste the identity file, or drop it here" }),
      area, h("div", { class: "row" }, button("Use it", { class: "primary", on: { click: () => void take(area.value, "pasted") } }), file, h("label", { class: "file-button", for: "identity-file", text: "Choose a file" })), note);
    this.given.addEventListener("dragover", (event) => event.preventDefault());
    this.given.addEventListener("drop", async (event) => {
      event.preventDefault();
      event.stopPropagation();
      const one = event.dataTransfer?.files[0];
      if (one !== undefined) await take(await one.text(), one.name);
    });
    return this.given;
  }
}

function facts(report: Report): HTMLElement {
  const list = h("dl", { class: "members facts" });
  const add = (name: string, value: string | null | undefined): void => {
    if (value) list.append(h("dt", { text: name }), h("dd", {}, h("code", { text: value })));
  };
  add("Format", `${report.format}, ${report.profile}`);
  add("Record", report.record);
  add("Head", report.head);
  for (const signer of report.signers) add(`Signer, ${signer.status}`, `${signer.name === null ? "" : `${nameOf(signer)}, `}${signer.key}`);
  add("Read", `${bytes(report.stats.bytes)}, ${count(report.stats.events, "line")}, ${count(report.stats.checkpoints, "seal")}`);
  for (const check of report.checks) add(`Check ${check.name}`, `${check.result}${check.why ? `: ${check.why}` : ""}`);
  for (const one of report.unauthenticated) add("Not covered", one);
  return list;
}

export function receivedNote(): HTMLElement {
  return h("aside", { class: "received", "aria-label": "What this page cannot prove" },
    h("p", { class: "facet-title", text: "A received page's own word is no proof" }),
    h("p", { text: "A person who can edit a record can edit a page as well, and paint it green. Two ways make sure:" }),
    h("ul", {},
      h("li", {}, "run ", h("code", { text: "threadseal verify FILE.html" }), " with a command that you installed;"),
      h("li", { text: "drop the file onto a verification page from a place that you trust." })),
    h("p", { text: "Both take the record out of the file, judge it, and compare what the page shows." }));
}
