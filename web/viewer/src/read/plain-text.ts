// The conversation as plain text: what an exported file shows without scripts, and what is compared with its record.

import type { SessionReader } from "./session.js";
import { text } from "./part.js";

const MAX_RESULT = 4000;

export function plainText(reader: SessionReader): string {
  const lines: string[] = [];
  for (const item of reader.items) {
    if (item.replaced || item.kind === "seal") continue;
    const full = reader.full(item.i);
    if (full === null) continue;
    const when = item.time === null ? "" : `  ${new Date(item.time).toISOString()}`;
    lines.push(`[${item.turn}] ${item.kind}${item.name === "" ? "" : ` ${clean(item.name)}`}${when}`);
    if (full.part.text !== "") lines.push(indented(full.part.text));
    if (item.kind === "tool" && full.part.data !== undefined) lines.push(indented(text(full.part.data)));
    if (full.result !== null) lines.push(full.result.ok === false ? "  failed:" : "  result:", indented(cut(full.result.text)));
    lines.push("");
  }
  return lines.join("\n");
}

function cut(words: string): string {
  return words.length <= MAX_RESULT ? words : `${words.slice(0, MAX_RESULT)}\n… ${words.length - MAX_RESULT} more characters`;
}

function indented(words: string): string {
  return clean(words).split("\n").map((line) => `  | ${line}`).join("\n");
}

/** Without characters that move a cursor or reorder text. */
function clean(words: string): string {
  return words.replace(/\r\n?/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}
