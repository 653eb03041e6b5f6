// The place for an identity beside one record: paste it, drop it or choose it. What was given is shown before it counts.

import type { Trusted } from "../core.js";
import type { OpenLog } from "../open-log.js";
import { button, h, replace } from "./dom.js";
import { IdentityCards } from "./identity-cards.js";

export interface PanelOptions {
  readonly log: OpenLog;
  readonly onTrust: (trusted: Trusted) => void;
}

export class IdentityPanel {
  readonly element = h("details", { class: "key-panel" });
  private readonly summary = h("summary");
  private readonly cards: IdentityCards;
  private readonly area = h("textarea", { id: "identity", rows: 2, spellcheck: "false", autocomplete: "off", placeholder: "{\"format\":\"threadseal-identity/1\",…}" });

  constructor(private readonly options: PanelOptions) {
    this.cards = new IdentityCards({
      signers: () => options.log.report?.signers.map((one) => one.key) ?? [],
      trusted: () => options.log.trustedKeys,
      onTrust: (trusted) => {
        this.area.value = "";
        this.element.open = false;
        options.onTrust(trusted);
      },
      record: "this record",
      several: false,
    });
    const look = async (one: File | undefined): Promise<void> => {
      if (one !== undefined) await this.cards.look(await one.text(), one.name);
    };
    const file = h("input", { type: "file", id: "identity-file", class: "hidden", "aria-label": "Choose an identity file", on: { change: () => void look(file.files?.[0]) } });
    this.element.append(this.summary,
      h("p", {}, "A file cannot prove whose key sealed it. Ask its sender for an identity file, which ", h("code", { text: "threadseal id export" }), " writes."),
      h("p", {}, "Ask for its twelve words in another way, such as by phone. ", h("code", { text: "threadseal id show" }), " prints them."),
      h("label", { for: "identity", text: "Paste the identity file, or drop it here" }), this.area,
      h("div", { class: "row" }, button("Look at it", { class: "primary", on: { click: () => void this.cards.look(this.area.value, "pasted") } }), file, h("label", { class: "file-button", for: "identity-file", text: "Choose a file" })),
      this.cards.result);
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", (event) => {
      event.preventDefault();
      event.stopPropagation();
      void look(event.dataTransfer?.files[0]);
    });
  }

  get isInUse(): boolean {
    return this.cards.isInUse;
  }

  /** After each verdict: whose key is asked for, and who is trusted. */
  draw(): void {
    const signer = this.options.log.report?.signers[0];
    const isTrusted = signer?.status === "trusted" || signer?.status === "pinned";
    const ask = signer === undefined ? "Is there an identity of its owner? " : isTrusted ? "The signer is trusted here. " : null;
    replace(this.summary, ask ?? "Whose key is ", ask === null ? h("code", { text: `${signer!.key.slice(0, 12)}…` }) : null, ask === null ? "? " : null,
      h("span", { class: "link-words", text: isTrusted ? "Add another identity" : "Add the signer's identity" }));
    this.cards.drawTrusted();
  }

  /** It is shown outside of the panel, which may be folded. */
  get trusted(): HTMLElement {
    return this.cards.trustedBox;
  }
}
