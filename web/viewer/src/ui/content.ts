// The content of an item in full: arguments of a call, its result, images, changes.

import type { Full } from "../read/session.js";
import { type Image, type Part, isObject, text } from "../read/part.js";
import { button, foreign, h, visible } from "./dom.js";
import { changeView } from "./diff.js";
import { bytes } from "./format.js";
import { prose } from "./prose.js";

/** Characters of a text that are shown before a click. */
const MAX_SHOWN = 6000;
/** Characters of a text that are in the page at all; the rest is in the file. */
const MAX_IN_PAGE = 400_000;
const MAX_IMAGE_BYTES = 32 * 2 ** 20;
const MAX_MEMBERS = 200;

export function callView(full: Full): HTMLElement {
  const { part, result } = full;
  const box = h("div", { class: "call-content" });
  const changes = [...(result?.changes ?? []), ...(result?.changes?.length ? [] : part.changes ?? [])];
  if (changes.length > 0) for (const change of changes) box.appendChild(changeView(change));
  const args = argumentsView(part, changes.length > 0);
  if (args !== null) box.insertBefore(args, box.firstChild);
  if (result !== null) box.appendChild(resultView(result));
  return box;
}

export function eventView(part: Part): HTMLElement {
  const box = h("div", { class: "call-content" });
  if (part.text !== "") box.appendChild(longText(part.text));
  if (part.data !== undefined) box.appendChild(jsonView(part.data));
  if (part.images !== undefined) box.appendChild(imagesView(part.images));
  return box;
}

/** What is known of a redacted place. */
export function holeView(part: Part): HTMLElement {
  const data = isObject(part.data) ? Object.entries(part.data).slice(0, MAX_MEMBERS) : [];
  const words: { readonly [name: string]: string } = { leaf: "digest that stays sealed", line: "line", why: "why", by: "by", at: "at" };
  return h("div", { class: "call-content" }, part.text === "" ? null : longText(part.text), membersView(data.map(([name, value]) => [words[name] ?? name, value] as const)));
}

function resultView(result: Part): HTMLElement {
  const isBad = result.ok === false;
  const box = h("div", { class: isBad ? "result failed" : "result" });
  box.appendChild(h("p", { class: "label", text: isBad ? "Failed" : "Result" }));
  if (result.text !== "") box.appendChild(longText(result.text));
  if (result.images !== undefined && result.images.length > 0) box.appendChild(imagesView(result.images));
  if (result.text === "" && !result.images?.length) box.appendChild(h("p", { class: "quiet", text: "It has no text." }));
  return box;
}

/** A command as a command, all else by its members. */
function argumentsView(part: Part, hasChange: boolean): HTMLElement | null {
  const data = part.data;
  if (typeof data === "string") return hasChange ? null : longText(data);
  if (!isObject(data)) return data === undefined || data === null ? null : jsonView(data);
  const box = h("div", { class: "arguments" });
  const command = data["command"] ?? data["cmd"];
  const hidden = new Set<string>();
  if (typeof command === "string" || Array.isArray(command)) {
    box.appendChild(h("pre", { class: "code command", dir: "ltr", tabindex: 0 }, h("code", { text: Array.isArray(command) ? command.map(text).join(" ") : command })));
    hidden.add("command").add("cmd");
  }
  if (hasChange) for (const name of ["old_string", "new_string", "oldString", "newString", "content", "file_text", "edits", "patch", "input", "diff"]) hidden.add(name);
  const members = Object.entries(data).filter(([name]) => !hidden.has(name));
  if (members.length > 0) box.appendChild(membersView(members.slice(0, MAX_MEMBERS)));
  return box;
}

function membersView(members: readonly (readonly [string, unknown])[]): HTMLElement {
  const list = h("dl", { class: "members" });
  for (const [name, value] of members) {
    list.appendChild(h("dt", {}, foreign(name)));
    list.appendChild(h("dd", {}, valueView(value)));
  }
  return list;
}

function valueView(value: unknown): HTMLElement {
  if (typeof value === "string") return value.length > 160 || value.includes("\n") ? longText(value) : foreign(value, { class: "text-value" });
  if (typeof value === "object" && value !== null) return jsonView(value);
  return h("span", { class: "other-value", text: String(value) });
}

export function jsonView(value: unknown): HTMLElement {
  return longText(text(value), "json");
}

/** A text with a button for its rest. */
export function longText(words: string, kind = "output"): HTMLElement {
  const pre = h("pre", { class: `code ${kind}`, dir: kind === "json" ? "ltr" : "auto", tabindex: 0 });
  const code = h("code", { text: words.slice(0, MAX_SHOWN) });
  pre.appendChild(code);
  if (words.length <= MAX_SHOWN) return pre;
  const box = h("div", { class: "long cut" }, pre);
  const rest = button(`Show all ${bytes(words.length)}`, {
    class: "more",
    on: {
      click: () => {
        code.textContent = words.slice(0, MAX_IN_PAGE);
        rest.remove();
        box.classList.remove("cut");
        if (words.length > MAX_IN_PAGE) box.appendChild(h("p", { class: "quiet", text: `${bytes(words.length - MAX_IN_PAGE)} more are in the file.` }));
      },
    },
  });
  box.appendChild(rest);
  return box;
}

/** Raster images that browsers draw without running anything; all else is named, and not shown. */
export function imagesView(images: readonly Image[]): HTMLElement {
  const box = h("div", { class: "images" });
  for (const [at, image] of images.entries()) {
    const found = rasterOf(image.data);
    if (found === null) {
      box.appendChild(h("p", { class: "quiet", text: "An image of a kind that is not shown." }));
      continue;
    }
    const url = URL.createObjectURL(new Blob([found.bytes as Uint8Array<ArrayBuffer>], { type: found.type }));
    box.appendChild(h("img", { src: url, alt: `Image ${at + 1} of this message`, loading: "lazy", on: { load: () => URL.revokeObjectURL(url), error: () => URL.revokeObjectURL(url) } }));
  }
  return box;
}

const RASTERS: readonly (readonly [string, readonly number[]])[] = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];

export function rasterOf(data: string): { type: string; bytes: Uint8Array } | null {
  if (data.length > (MAX_IMAGE_BYTES * 4) / 3) return null;
  let decoded: string;
  try {
    decoded = atob(data.replace(/\s/g, ""));
  } catch {
    return null;
  }
  const found = Uint8Array.from(decoded, (one) => one.charCodeAt(0));
  const raster = RASTERS.find(([, start]) => start.every((byte, at) => found[at] === byte));
  return raster === undefined ? null : { type: raster[0], bytes: found };
}

export function proseView(part: Part): HTMLElement {
  const box = h("div", {}, prose(part.text));
  if (part.images !== undefined && part.images.length > 0) box.appendChild(imagesView(part.images));
  return box;
}

export function rawView(full: Full): HTMLElement {
  return h("div", { class: "raw" },
    h("p", { class: "label", text: `Bytes ${full.bytes[0].toLocaleString("en")} to ${full.bytes[1].toLocaleString("en")}, as they are in the file` }),
    longText(visible(full.raw), "json"));
}
