// The texts of a TOML file by their dotted names: enough for Rye's key files (spec/documents.md §8.3). Values
// that are no texts, and lines that are not understood, are passed over.

/** Names such as `public_key.pem`. Of a name that occurs twice the first counts. */
export function parseToml(text: string): Map<string, string> {
  const found = new Map<string, string>();
  let table = "";
  let at = 0;
  while (at < text.length) {
    const lf = text.indexOf("\n", at);
    const end = lf < 0 ? text.length : lf;
    const line = text.slice(at, end);
    const header = /^[ \t]*\[([^[\]]+)\][ \t]*(?:#.*)?$/.exec(line);
    const pair = /^[ \t]*([A-Za-z0-9_."' \t-]+?)[ \t]*=[ \t]*/.exec(line);
    if (header !== null) table = dotted(header[1]!);
    else if (pair !== null && !line.trimStart().startsWith("#")) {
      const value = readValue(text, at + pair[0].length);
      if (value !== null) {
        const name = table === "" ? dotted(pair[1]!) : `${table}.${dotted(pair[1]!)}`;
        if (!found.has(name)) found.set(name, value.text);
        const next = text.indexOf("\n", value.end);
        at = next < 0 ? text.length : next + 1;
        continue;
      }
      inline(line.slice(pair[0].length), dotted(pair[1]!), found);
    }
    at = end + 1;
  }
  return found;
}

function dotted(name: string): string {
  return name.split(".").map((part) => part.trim().replace(/^["']|["']$/g, "")).join(".");
}

/** `{ pem = "…" }` on one line. */
function inline(text: string, name: string, found: Map<string, string>): void {
  const pairs = /([A-Za-z0-9_-]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|'[^']*')/g;
  if (!text.startsWith("{")) return;
  for (const pair of text.matchAll(pairs)) {
    const value = readValue(pair[2]!, 0);
    const full = `${name}.${pair[1]!}`;
    if (value !== null && !found.has(full)) found.set(full, value.text);
  }
}

function readValue(text: string, at: number): { text: string; end: number } | null {
  for (const quote of ['"""', "'''", '"', "'"]) {
    if (!text.startsWith(quote, at)) continue;
    const end = closing(text, at + quote.length, quote);
    if (end < 0) return null;
    let body = text.slice(at + quote.length, end);
    if (quote.length === 3 && body.startsWith("\n")) body = body.slice(1);
    return { text: quote[0] === '"' ? unescape(body) : body, end: end + quote.length };
  }
  return null;
}

function closing(text: string, at: number, quote: string): number {
  for (; at < text.length; at += 1) {
    if (quote[0] === '"' && text[at] === "\\") at += 1;
    else if (text.startsWith(quote, at)) return at;
    else if (quote.length === 1 && text[at] === "\n") return -1;
  }
  return -1;
}

const ESCAPES: Readonly<Record<string, string>> = { b: "\b", t: "\t", n: "\n", f: "\f", r: "\r", '"': '"', "\\": "\\" };

function unescape(text: string): string {
  return text.replace(/\\(?:\n[ \t\n]*|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^]))/g, (all, u, v, one) => {
    const digits: unknown = u ?? v;
    if (typeof digits === "string") {
      const point = parseInt(digits, 16);
      return point <= 0x10ffff ? String.fromCodePoint(point) : all;
    }
    return typeof one === "string" ? (ESCAPES[one] ?? all) : "";
  });
}
