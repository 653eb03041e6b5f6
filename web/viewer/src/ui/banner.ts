// The verdict at the top: one sentence, and behind a click what was checked, by whom, and what was not.

import type { Answer, Report, Trusted } from "../core.js";
import { agree } from "../core.js";
import { parseHex } from "../../../verifier/src/bytes.js";
import { keyIdOf } from "../identity.js";
import type { OpenLog } from "../open-log.js";
import { announce, append, button, h, icon, replace } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { IdentityPanel } from "./identity-panel.js";
import { type Judged, LIGHT_ICON, checkText, codeText, facets, isEvidence, judged, nameOf, resultText, unproved, wordOf } from "./verdict.js";

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
  private readonly panel: IdentityPanel;
  private printing = false;
  private words = "";

  constructor(private readonly options: BannerOptions) {
    this.panel = new IdentityPanel(options);
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
    const judgement = waits ? { light: "none" as const, word: "Verifying", sentence: `${this.progress || "Verifying in this page"}.` } : judged(log.answers, log);
    this.element.dataset["light"] = judgement.light;
    if (judgement.sentence !== this.words && !waits) announce(judgement.sentence);
    this.words = judgement.sentence;
    const toggle = button("What is proved", {
      class: "quiet-button", "aria-expanded": String(this.isOpen), "aria-controls": "checked", "data-checked": true,
      on: { click: () => this.toggle() },
    }, h("span", { text: "What is proved" }), icon("chevron"));
    const line = h("div", { class: "verdict-line" },
      h("span", { class: "verdict-seal" }, icon(LIGHT_ICON[judgement.light])),
      this.sentence(judgement),
      waits ? h("progress", { max: 100, value: 0, "aria-label": "Verification" }) : null,
      log.isVerifying && !waits ? h("span", { class: "spinner", role: "img", "aria-label": "Verifying again" }) : null,
      toggle);
    // A received page has the place for an identity whatever its verdict is; here the home's own keys are known.
    const hasPanel = !waits && (this.options.isReceived || log.report?.verdict === "unknown_signer" || this.panel.isInUse);
    const isOpen = this.isOpen || this.printing;
    const detail = h("div", { id: "checked", class: "checked", hidden: !isOpen, tabindex: 0, role: "region", "aria-label": "What is proved" });
    this.panel.draw();
    replace(this.element, line, this.options.isReceived ? this.ownWord() : null, hasPanel ? this.panel.trusted : null, hasPanel ? this.panel.element : null, detail);
    if (isOpen) this.drawDetail(detail);
  }

  /** On paper all of it is open. */
  print(isPrinting: boolean): void {
    this.printing = isPrinting;
    this.draw();
  }

  /** The sentence, with a way to the place that it names. */
  private sentence({ sentence, place }: Judged | { sentence: string; place?: undefined }): HTMLElement {
    const at = place === undefined ? -1 : sentence.indexOf(place.words);
    if (place === undefined || at < 0) return h("p", { class: "verdict-sentence", text: sentence });
    return h("p", { class: "verdict-sentence" }, sentence.slice(0, at), button(place.words, { class: "link-button", on: { click: () => this.options.onPlace(place.line) } }), sentence.slice(at + place.words.length));
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
      box.appendChild(h("div", { class: "facets" }, ...facets(report, this.sealedAt(report), this.options.log).map((facet) => h("div", { class: "facet", "data-light": facet.light },
        h("p", { class: "facet-title" }, icon(LIGHT_ICON[facet.light]), facet.name), h("p", { text: facet.sentence })))));
      append(box, [this.findings(report), h("section", { class: "unproved", "aria-label": "What is not proved" }, h("h2", { class: "part-title", text: "What is not proved" }), h("ul", {}, ...unproved(report, this.options.log).map((text) => h("li", { text }))))]);
    }
    if (this.options.isReceived) box.appendChild(receivedNote());
    box.appendChild(h("div", { class: "both" }, this.engines(this.options.log.answers), this.options.serverReport === null ? null : this.server()));
    if (report !== null) box.appendChild(facts(report, this.options.log.sealFile?.key ?? null));
  }

  /** A record that was changed has no time to show. */
  private sealedAt(report: Report): string | null {
    const time = this.options.log.seals.at(-1)?.time ?? null;
    return time === null || isEvidence(report) ? null : new Date(time).toISOString().replace(/\.\d+Z$/, "Z");
  }

  private findings(report: Report): HTMLElement {
    const list = h("ul", { class: "findings", "aria-label": "Findings" });
    for (const one of report.findings) {
      const place = one.line !== null ? this.options.log.turns.place(one.line) : one.turn !== null ? `turn ${one.turn}` : one.bytes !== null ? `bytes ${one.bytes[0]} to ${one.bytes[1]}` : "";
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
      h("th", { scope: "row", text: one.engine }), h("td", {}, ...(one.report === null ? [h("span", { class: "bad", text: one.error ?? "no answer" })] : [`${wordOf(one.report)} `, h("code", { text: one.report.verdict })])),
      h("td", { text: one.report === null ? "" : count(one.report.findings.length, "finding") }), h("td", { text: duration(one.milliseconds) })));
    box.appendChild(h("table", {}, h("thead", {}, h("tr", {}, ...["Program", "Verdict", "Findings", "Time"].map((name) => h("th", { scope: "col", text: name })))), h("tbody", {}, ...rows)));
    const words = answers.length < 2 ? "One program is built into this page; the second, the core in WebAssembly, is not."
      : reports.length < answers.length ? "One of them has no answer."
        : doAgree ? `Both programs in this page give the same answer: ${wordOf(reports[0]!).toLowerCase()}.` : "They disagree: verdict, findings or place differ. One of them, or the specification, is wrong.";
    const isSame = doAgree && reports.length === answers.length;
    box.appendChild(h("p", { class: isSame ? (reports[0]?.verdict === "verified" ? "good" : "quiet") : "bad", text: words }));
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
}

/** `key`: the public key that the file of seals names. */
function facts(report: Report, key: string | null): HTMLElement {
  const list = h("dl", { class: "members facts" });
  const add = (name: string, value: string | null | undefined): void => {
    if (value) list.append(h("dt", { text: name }), h("dd", {}, h("code", { text: value })));
  };
  add("Format", `${report.format}, ${report.profile}`);
  add("Record", report.record);
  add("Head", report.head);
  for (const signer of report.signers) {
    add(`Signer's key id, ${signer.status}`, `${signer.name === null ? "" : `${nameOf(signer)}, `}${signer.key}`);
    if (key !== null && parseHex(key, 32) !== null && keyIdOf(key) === signer.key) add("Its public key", key);
  }
  add("Read", `${bytes(report.stats.bytes)}, ${count(report.stats.events, "line")}, ${count(report.stats.checkpoints, "seal")}`);
  for (const check of report.checks) add(checkText(check.name), `${resultText(check.result)}${check.why ? `: ${check.why}` : ""} (${check.name} ${check.result})`);
  for (const one of report.unauthenticated) add("Not covered", one);
  return list;
}

export function receivedNote(): HTMLElement {
  return h("aside", { class: "received", "aria-label": "What this page cannot prove" },
    h("p", { class: "facet-title", text: "A received page's own word is no proof" }),
    h("p", { text: "A person who can edit a record can edit a page as well, and paint it green. Two ways make sure:" }),
    h("ul", {},
      h("li", {}, "Run ", h("code", { text: "threadseal verify FILE.html" }), " with a program from ThreadSeal's own sources: in a copy of them, ", h("code", { text: "cargo install --path crates/threadseal-cli" }), " builds it."),
      h("li", {}, "Drop the file onto the verification page, ", h("code", { text: "index.html" }), " in the folder ", h("code", { text: "web/verify/dist" }), " that ", h("code", { text: "web/viewer/build.sh" }), " writes.")),
    h("p", {}, "A good one comes from sources that you took yourself, or from a host that you trust. It did not come with this file, and it opens with the word Verify on top."),
    h("p", { text: "Both take the record out of the file, judge it, and compare what the page shows." }));
}
