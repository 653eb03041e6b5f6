// The place for an identity: what was given is shown first, with its words, its keys and the one that sealed this record.
// A person trusts it after comparing the words; the trust ends with the page.

import { NO_TRUST, type Trusted } from "../core.js";
import { type Entry, type Given, type Identity, keyIdOf, readGiven } from "../identity.js";
import type { OpenLog } from "../open-log.js";
import { announce, button, foreign, h, icon, replace } from "./dom.js";

export interface PanelOptions {
  readonly log: OpenLog;
  readonly onTrust: (trusted: Trusted) => void;
}

export class IdentityPanel {
  readonly element = h("details", { class: "key-panel" });
  private readonly summary = h("summary");
  private readonly trustedBox = h("div", { class: "trusted-here" });
  private readonly result = h("div", { class: "given", role: "status" });
  private readonly area = h("textarea", { id: "identity", rows: 2, spellcheck: "false", autocomplete: "off", placeholder: "{\"format\":\"threadseal-identity/1\",…}" });
  /** What was trusted before a person added to it; null: nothing was added here. */
  private before: Trusted | null = null;

  constructor(private readonly options: PanelOptions) {
    const file = h("input", { type: "file", id: "identity-file", class: "hidden", "aria-label": "Choose an identity file", on: { change: async () => { const one = file.files?.[0]; if (one !== undefined) await this.look(await one.text(), one.name); } } });
    this.element.append(this.summary,
      h("p", {}, "A file cannot prove whose key sealed it. Ask its sender for an identity file, which ", h("code", { text: "threadseal id export" }), " writes."),
      h("p", {}, "Ask for its twelve words in another way, such as by phone. ", h("code", { text: "threadseal id show" }), " prints them."),
      h("label", { for: "identity", text: "Paste the identity file, or drop it here" }), this.area,
      h("div", { class: "row" }, button("Look at it", { class: "primary", on: { click: () => void this.look(this.area.value, "pasted") } }), file, h("label", { class: "file-button", for: "identity-file", text: "Choose a file" })),
      this.result);
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", async (event) => {
      event.preventDefault();
      event.stopPropagation();
      const one = event.dataTransfer?.files[0];
      if (one !== undefined) await this.look(await one.text(), one.name);
    });
  }

  get isInUse(): boolean {
    return this.before !== null;
  }

  /** After each verdict: whose key is asked for, and who is trusted. */
  draw(): void {
    const { log } = this.options;
    const signer = log.report?.signers[0];
    const keys = log.trustedKeys.keys;
    const isTrusted = signer?.status === "trusted" || signer?.status === "pinned";
    const names = [...new Set(keys.map((one) => one.name))];
    const ask = signer === undefined ? "Is there an identity of its owner? " : isTrusted ? "The signer is trusted here. " : null;
    replace(this.summary, ask ?? "Whose key is ", ask === null ? h("code", { text: `${signer!.key.slice(0, 12)}…` }) : null, ask === null ? "? " : null,
      h("span", { class: "link-words", text: isTrusted ? "Add another identity" : "Add the signer's identity" }));
    replace(this.trustedBox, names.length === 0 ? null : h("p", {}, "You trust ", ...names.flatMap((name, at) => [at === 0 ? null : ", ", foreign(`“${name}”`)]), ". This ends when the page is closed. ",
      button("Undo", { class: "link-button", on: { click: () => this.undo() } })));
  }

  /** It is shown outside of the panel, which may be folded. */
  get trusted(): HTMLElement {
    return this.trustedBox;
  }

  private undo(): void {
    this.options.onTrust(this.before ?? NO_TRUST);
    this.before = null;
    replace(this.result, h("p", { text: "The trust was taken back." }));
    announce("The trust was taken back.");
  }

  private async look(words: string, name: string): Promise<void> {
    try {
      const given = await readGiven(words, name, this.options.log.report?.signers.map((one) => one.key) ?? []);
      replace(this.result, given.identity === null ? this.bareKey(given) : this.identity(given, given.identity));
    } catch (error) {
      replace(this.result, h("p", { class: "bad", text: `Not used: ${error instanceof Error ? error.message : String(error)}` }));
    }
  }

  private isSigner(key: string): boolean {
    return this.options.log.report?.signers.some((one) => one.key === key) === true;
  }

  private identity(given: Given, identity: Identity): HTMLElement {
    const own = identity.entries.filter((one) => this.isSigner(one.keyId));
    const card = h("div", { class: "identity-card" },
      h("p", { class: "facet-title" }, icon("seal"), "The identity ", foreign(`“${identity.name}”`)),
      h("p", { text: "Its words:" }), h("ol", { class: "words" }, ...identity.words.map((word) => h("li", { text: word }))),
      entries(identity.entries, own));
    if (own.length === 0) {
      card.append(this.noSigner("This identity did not seal this record: none of its keys is the one that did."));
      return card;
    }
    card.append(h("p", {}, "Its entry ", h("code", { text: own[0]!.usage }), " sealed this record."));
    const isLeftOut = !given.keys.some((key) => own.some((one) => one.public === key.public));
    if (isLeftOut) card.append(h("p", { class: "bad", text: "This page does not check the proofs of such entries, so it cannot trust this one." }));
    else card.append(this.question("Were these words given to you in another way, such as by phone?", "Yes, the same words: trust it", given));
    return card;
  }

  /** A key alone has no words to compare: where it came from is all that speaks for it. */
  private bareKey(given: Given): HTMLElement {
    const key = given.keys[0]!.public;
    const card = h("div", { class: "identity-card" },
      h("p", { class: "facet-title" }, icon("warn"), "A bare key: it has no owner's name and no words"),
      h("dl", { class: "members" }, h("dt", { text: "Public key" }), h("dd", {}, h("code", { text: key })), h("dt", { text: "Key id" }), h("dd", {}, h("code", { text: keyIdOf(key) }))));
    card.append(this.isSigner(keyIdOf(key)) ? this.question("It sealed this record. Did its owner give it to you, in another way than this page?", "Yes: trust this bare key", given)
      : this.noSigner("This key did not seal this record."));
    return card;
  }

  private noSigner(words: string): HTMLElement {
    const signer = this.options.log.report?.signers[0];
    return h("div", { class: "not-signer" }, h("p", { class: "bad", text: signer === undefined ? "No seal of this record names a key, so no identity can vouch for it." : words }),
      signer === undefined ? null : h("p", {}, "The record was sealed by key id ", h("code", { text: signer.key }), "."));
  }

  private question(words: string, yes: string, given: Given): HTMLElement {
    const box = h("div", { class: "question" }, h("p", { text: words }));
    box.append(h("div", { class: "row" },
      button(yes, { class: "primary", "data-trust": true, on: { click: () => this.trust(given) } }),
      button("No", { on: { click: () => replace(this.result, h("p", { text: "Not trusted. Ask its owner in a way that you trust, and compare." })) } })));
    return box;
  }

  private trust(given: Given): void {
    const before = this.options.log.trustedKeys;
    this.before ??= before;
    const keys = [...before.keys.filter((one) => !given.keys.some((other) => other.public === one.public)), ...given.keys];
    replace(this.result, h("p", { text: "Trusted, in this page only." }));
    this.area.value = "";
    this.element.open = false;
    this.options.onTrust({ keys, store: null, identities: given.identity === null ? before.identities : [...before.identities, given.text] });
  }
}

/** Each key in both of its names: the identity file has the one, reports have the other. */
export function entries(all: readonly Entry[], own: readonly Entry[]): HTMLElement {
  const row = (one: Entry): HTMLElement => h("tr", { class: own.includes(one) ? "own" : undefined },
    h("th", { scope: "row" }, h("code", { text: one.usage })), h("td", {}, h("code", { title: one.public, text: `${one.public.slice(0, 12)}…` })), h("td", {}, h("code", { title: one.keyId, text: `${one.keyId.slice(0, 12)}…` })),
    h("td", { text: [own.includes(one) ? "sealed this record" : "", one.isEnded ? "ended" : ""].filter((word) => word !== "").join(", ") }));
  return h("div", { class: "table-box" }, h("table", { class: "entries" },
    h("thead", {}, h("tr", {}, ...["Entry", "Public key", "Key id", ""].map((name) => h("th", { scope: "col", text: name })))), h("tbody", {}, ...all.map(row))));
}
