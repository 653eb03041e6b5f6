// What an identity or a key is, before it counts: its words, its keys, and the one that sealed a record here. A person
// trusts it after comparing the words; the trust ends with the page.

import { NO_TRUST, type Trusted } from "../core.js";
import { type Entry, type Given, type Identity, keyIdOf, readGiven } from "../identity.js";
import { announce, button, foreign, h, icon, replace } from "./dom.js";

export interface CardOptions {
  /** The key ids that sealed what is judged here; null: nothing is judged yet. */
  readonly signers: () => readonly string[] | null;
  readonly trusted: () => Trusted;
  readonly onTrust: (trusted: Trusted) => void;
  /** What the seals are of: "this record", or "a record here". */
  readonly record: string;
  /** Several may wait for an answer; else each takes the place of the one before. */
  readonly several: boolean;
}

export class IdentityCards {
  /** The cards of what was given and is not decided yet. */
  readonly result = h("div", { class: "given", role: "status" });
  /** Who is trusted, with a way back. */
  readonly trustedBox = h("div", { class: "trusted-here" });
  private open: Given[] = [];
  /** What was trusted before a person added to it; null: nothing was added here. */
  private before: Trusted | null = null;

  constructor(private readonly options: CardOptions) {}

  get isInUse(): boolean {
    return this.before !== null;
  }

  async look(words: string, name: string): Promise<void> {
    try {
      const given = await readGiven(words, name, this.options.signers() ?? []);
      const others = this.options.several ? this.open.filter((one) => one.text !== given.text) : [];
      this.open = [...others, given];
      this.drawOpen();
    } catch (error) {
      if (!this.options.several) this.open = [];
      this.drawOpen();
      this.result.append(h("p", { class: "bad" }, "Not used: ", foreign(name), `: ${error instanceof Error ? error.message : String(error)}`));
    }
  }

  /** What waits for an answer: asked again when other records are judged. */
  drawOpen(...words: readonly string[]): void {
    replace(this.result, ...words.map((text) => h("p", { text })), ...this.open.map((given) => (given.identity === null ? this.bareKey(given) : this.identity(given, given.identity))));
  }

  drawTrusted(): void {
    const names = [...new Set(this.options.trusted().keys.map((one) => one.name))];
    replace(this.trustedBox, names.length === 0 ? null : h("p", {}, "You trust ", ...names.flatMap((name, at) => [at === 0 ? null : ", ", foreign(`“${name}”`)]), ". This ends when the page is closed. ",
      button("Undo", { class: "link-button", on: { click: () => this.undo() } })));
  }

  private undo(): void {
    const before = this.before ?? NO_TRUST;
    this.before = null;
    this.drawOpen("The trust was taken back.");
    announce("The trust was taken back.");
    this.options.onTrust(before);
  }

  private isSigner(key: string): boolean {
    return this.options.signers()?.includes(key) === true;
  }

  private identity(given: Given, identity: Identity): HTMLElement {
    const own = identity.entries.filter((one) => this.isSigner(one.keyId));
    const card = h("div", { class: "identity-card" },
      h("p", { class: "facet-title" }, icon("seal"), "The identity ", foreign(`“${identity.name}”`)),
      h("p", { text: "Its words:" }), h("ol", { class: "words" }, ...identity.words.map((word) => h("li", { text: word }))),
      entries(identity.entries, own, this.options.record));
    const nothing = this.options.signers() === null;
    if (own.length === 0 && !nothing) {
      card.append(this.noSigner(`This identity did not seal ${this.options.record}: none of its keys is the one that did.`));
      return card;
    }
    if (!nothing) card.append(h("p", {}, "Its entry ", h("code", { text: own[0]!.usage }), ` sealed ${this.options.record}.`));
    const isLeftOut = !nothing && !given.keys.some((key) => own.some((one) => one.public === key.public));
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
    const nothing = this.options.signers() === null;
    if (!nothing && !this.isSigner(keyIdOf(key))) card.append(this.noSigner(`This key did not seal ${this.options.record}.`));
    else card.append(this.question(`${nothing ? "" : `It sealed ${this.options.record}. `}Did its owner give it to you, in another way than this page?`, "Yes: trust this bare key", given));
    return card;
  }

  private noSigner(words: string): HTMLElement {
    const [signer] = this.options.signers() ?? [];
    return h("div", { class: "not-signer" }, h("p", { class: "bad", text: signer === undefined ? `No seal of ${this.options.record} names a key, so no identity can vouch for it.` : words }),
      signer === undefined ? null : h("p", {}, "The seal names the key id ", h("code", { text: signer }), "."));
  }

  private question(words: string, yes: string, given: Given): HTMLElement {
    const close = (): void => { this.open = this.open.filter((one) => one !== given); };
    const box = h("div", { class: "question" }, h("p", { text: words }));
    box.append(h("div", { class: "row" },
      button(yes, { class: "primary", "data-trust": true, on: { click: () => { close(); this.trust(given); } } }),
      button("No", { on: { click: () => { close(); this.drawOpen("Not trusted. Ask its owner in a way that you trust, and compare."); } } })));
    return box;
  }

  private trust(given: Given): void {
    const before = this.options.trusted();
    this.before ??= before;
    const keys = [...before.keys.filter((one) => !given.keys.some((other) => other.public === one.public)), ...given.keys];
    this.drawOpen("Trusted, in this page only.");
    this.options.onTrust({ keys, store: null, identities: given.identity === null ? before.identities : [...before.identities, given.text] });
  }
}

/** Each key in both of its names: the identity file has the one, reports have the other. */
function entries(all: readonly Entry[], own: readonly Entry[], record: string): HTMLElement {
  const row = (one: Entry): HTMLElement => h("tr", { class: own.includes(one) ? "own" : undefined },
    h("th", { scope: "row" }, h("code", { text: one.usage })), h("td", {}, h("code", { title: one.public, text: `${one.public.slice(0, 12)}…` })), h("td", {}, h("code", { title: one.keyId, text: `${one.keyId.slice(0, 12)}…` })),
    h("td", { text: [own.includes(one) ? `sealed ${record}` : "", one.isEnded ? "ended" : ""].filter((word) => word !== "").join(", ") }));
  return h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Keys of the identity" }, h("table", { class: "entries" },
    h("thead", {}, h("tr", {}, ...["Entry", "Public key", "Key id", "Notes"].map((name) => h("th", { scope: "col", text: name })))), h("tbody", {}, ...all.map(row))));
}
