// TOML 1.1: enough to tell a TOML text from another one, and to find its texts (spec/documents.md §8.3).

/** A table knows how it came to be: that decides what may still be added to it. */
interface Table {
  readonly kind: "table";
  readonly entries: Map<string, Value>;
  origin: "implied" | "header" | "dotted" | "inline";
}

type Value =
  | Table
  | { readonly kind: "tables"; readonly list: Table[] }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "other" };

const OTHER: Value = { kind: "other" };
const MAX_DEPTH = 80;

class NoToml extends Error {}

/** Finds texts by the names on their path; null where the text is no TOML. */
export function parseToml(text: string): ((...path: string[]) => string | undefined) | null {
  let root: Table;
  try {
    root = new Parser(text.startsWith("\ufeff") ? text.slice(1) : text).document();
  } catch (error) {
    if (error instanceof NoToml) return null;
    throw error;
  }
  return (...path) => {
    let at: Value | undefined = root;
    for (const name of path) at = at?.kind === "table" ? at.entries.get(name) : undefined;
    return at?.kind === "text" ? at.text : undefined;
  };
}

function tableOf(origin: Table["origin"]): Table {
  return { kind: "table", entries: new Map(), origin };
}

const BARE = /[A-Za-z0-9_-]+/y;
const NUMBER =
  /[+-]?(?:inf|nan)|0x[0-9A-Fa-f]+(?:_[0-9A-Fa-f]+)*|0o[0-7]+(?:_[0-7]+)*|0b[01]+(?:_[01]+)*|[+-]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.[0-9]+(?:_[0-9]+)*)?(?:[eE][+-]?[0-9]+(?:_[0-9]+)*)?/y;
const MAX_INTEGER = 2n ** 63n - 1n;
const DATE = /([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ](?=[0-9]{2}:))?/y;
const TIME = /([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?/y;
const OFFSET = /[Zz]|[+-]([0-9]{2}):([0-9]{2})/y;
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/;

class Parser {
  private at = 0;

  constructor(private readonly text: string) {}

  document(): Table {
    const root = tableOf("header");
    let table = root;
    for (;;) {
      this.blank(true);
      if (this.at >= this.text.length) return root;
      if (this.text.startsWith("[[", this.at)) table = this.arrayHeader(root);
      else if (this.peek() === "[") table = this.header(root);
      else this.pair(table);
      this.endOfLine();
    }
  }

  private fail(): never {
    throw new NoToml();
  }

  private peek(): string {
    return this.text[this.at] ?? "";
  }

  private expect(word: string): void {
    if (!this.text.startsWith(word, this.at)) this.fail();
    this.at += word.length;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found !== null) this.at += found[0].length;
    return found;
  }

  /** Blanks, and comments and line ends where they may be. */
  private blank(lines: boolean): void {
    for (;;) {
      const c = this.peek();
      if (c === " " || c === "\t") this.at += 1;
      else if (lines && c === "#") this.comment();
      else if (!lines || !this.lineEnd()) return;
    }
  }

  private comment(): void {
    const lf = this.text.indexOf("\n", this.at);
    let end = lf < 0 ? this.text.length : lf;
    if (this.text[end - 1] === "\r" && lf >= 0) end -= 1;
    const body = this.text.slice(this.at, end);
    if (CONTROL.test(body) || body.includes("\r")) this.fail();
    this.at = end;
  }

  private lineEnd(): boolean {
    if (this.text.startsWith("\r\n", this.at)) this.at += 2;
    else if (this.peek() === "\n") this.at += 1;
    else return false;
    return true;
  }

  private endOfLine(): void {
    this.blank(false);
    if (this.peek() === "#") this.comment();
    if (this.at < this.text.length && !this.lineEnd()) this.fail();
  }

  private path(): string[] {
    const names: string[] = [];
    for (;;) {
      this.blank(false);
      names.push(this.name());
      this.blank(false);
      if (this.peek() !== ".") return names;
      this.at += 1;
    }
  }

  private name(): string {
    const c = this.peek();
    if (c === '"') return this.basic();
    if (c === "'") return this.literal();
    return this.match(BARE)?.[0] ?? this.fail();
  }

  private header(root: Table): Table {
    this.expect("[");
    const path = this.path();
    this.expect("]");
    const last = path.pop()!;
    const parent = this.descend(root, path);
    const known = parent.entries.get(last);
    if (known === undefined) {
      const table = tableOf("header");
      parent.entries.set(last, table);
      return table;
    }
    if (known.kind !== "table" || known.origin !== "implied") this.fail();
    known.origin = "header";
    return known;
  }

  private arrayHeader(root: Table): Table {
    this.expect("[[");
    const path = this.path();
    this.expect("]]");
    const last = path.pop()!;
    const parent = this.descend(root, path);
    const known = parent.entries.get(last) ?? { kind: "tables", list: [] };
    if (known.kind !== "tables") this.fail();
    parent.entries.set(last, known);
    const table = tableOf("header");
    known.list.push(table);
    return table;
  }

  /** The table that a header's names before the last lead to. */
  private descend(root: Table, path: readonly string[]): Table {
    let table = root;
    for (const name of path) {
      const known = table.entries.get(name);
      if (known === undefined) {
        const next = tableOf("implied");
        table.entries.set(name, next);
        table = next;
      } else if (known.kind === "table" && known.origin !== "inline") table = known;
      else if (known.kind === "tables") table = known.list[known.list.length - 1]!;
      else this.fail();
    }
    return table;
  }

  private pair(table: Table): void {
    const path = this.path();
    this.expect("=");
    this.blank(false);
    const value = this.value(0);
    const last = path.pop()!;
    let into = table;
    for (const name of path) {
      const known = into.entries.get(name);
      if (known === undefined) {
        const next = tableOf("dotted");
        into.entries.set(name, next);
        into = next;
      } else if (known.kind === "table" && known.origin === "dotted") into = known;
      else this.fail();
    }
    if (into.entries.has(last)) this.fail();
    into.entries.set(last, value);
  }

  private value(depth: number): Value {
    if (depth > MAX_DEPTH) this.fail();
    const c = this.peek();
    if (this.text.startsWith('"""', this.at) || this.text.startsWith("'''", this.at)) return { kind: "text", text: this.long() };
    if (c === '"') return { kind: "text", text: this.basic() };
    if (c === "'") return { kind: "text", text: this.literal() };
    if (c === "[") return this.array(depth);
    if (c === "{") return this.inline(depth);
    for (const word of ["true", "false"]) {
      if (!this.text.startsWith(word, this.at)) continue;
      this.at += word.length;
      return OTHER;
    }
    if (!this.moment()) this.number();
    if (/[A-Za-z0-9_.+-]/.test(this.peek())) this.fail();
    return OTHER;
  }

  /** An integer fits in 64 bits with its sign, and no number but `inf` is beyond doubles. */
  private number(): void {
    const text = (this.match(NUMBER) ?? this.fail())[0].replaceAll("_", "");
    if (/inf|nan/.test(text)) return;
    if (!/^0[xob]/.test(text) && /[.eE]/.test(text)) {
      if (!Number.isFinite(Number(text))) this.fail();
      return;
    }
    const size = BigInt(text.replace(/^[+-]/, ""));
    if (size > MAX_INTEGER && !(text.startsWith("-") && size === MAX_INTEGER + 1n)) this.fail();
  }

  private array(depth: number): Value {
    this.expect("[");
    for (;;) {
      this.blank(true);
      if (this.peek() === "]") break;
      this.value(depth + 1);
      this.blank(true);
      if (this.peek() === "]") break;
      this.expect(",");
    }
    this.expect("]");
    return OTHER;
  }

  private inline(depth: number): Value {
    this.expect("{");
    const table = tableOf("inline");
    for (;;) {
      this.blank(true);
      if (this.peek() === "}") break;
      this.inlinePair(table, depth);
      this.blank(true);
      if (this.peek() === "}") break;
      this.expect(",");
    }
    this.expect("}");
    closeAll(table);
    return table;
  }

  private inlinePair(table: Table, depth: number): void {
    if (depth >= MAX_DEPTH) this.fail();
    this.pair(table);
  }

  private moment(): boolean {
    const date = this.match(DATE);
    if (date !== null && !isDate(Number(date[1]), Number(date[2]), Number(date[3]))) this.fail();
    if (date !== null && !/[Tt ]$/.test(date[0])) return true;
    const time = this.match(TIME);
    if (time === null) return date !== null;
    if (Number(time[1]) > 23 || Number(time[2]) > 59 || Number(time[3] ?? 0) > 60) this.fail();
    if (date === null) return true;
    const offset = this.match(OFFSET);
    if (offset !== null && (Number(offset[1] ?? 0) > 23 || Number(offset[2] ?? 0) > 59)) this.fail();
    return true;
  }

  private basic(): string {
    this.expect('"');
    let text = "";
    for (;;) {
      const c = this.peek();
      if (c === '"') break;
      if (c === "" || c === "\n" || c === "\r" || CONTROL.test(c)) this.fail();
      if (c === "\\") text += this.escape();
      else {
        text += c;
        this.at += 1;
      }
    }
    this.at += 1;
    return text;
  }

  private literal(): string {
    this.expect("'");
    const end = this.text.indexOf("'", this.at);
    const body = end < 0 ? this.fail() : this.text.slice(this.at, end);
    if (/[\r\n]/.test(body) || CONTROL.test(body)) this.fail();
    this.at = end + 1;
    return body;
  }

  /** A text of several lines, in quotes of either kind. */
  private long(): string {
    const quote = this.peek();
    this.at += 3;
    this.lineEnd();
    let text = "";
    for (;;) {
      const c = this.peek();
      if (c === quote && this.text.startsWith(quote.repeat(3), this.at)) break;
      if (c === "" || CONTROL.test(c) || (c === "\r" && this.text[this.at + 1] !== "\n")) this.fail();
      if (c === "\\" && quote === '"') text += this.foldedOrEscape();
      else {
        text += c;
        this.at += 1;
      }
    }
    // Up to two quotes may be the last characters of the text.
    let quotes = 3;
    while (quotes < 5 && this.text[this.at + quotes] === quote) quotes += 1;
    this.at += quotes;
    return text + quote.repeat(quotes - 3);
  }

  /** A backslash at the end of a line takes the line end and the blanks behind it away. */
  private foldedOrEscape(): string {
    const fold = /\\[ \t]*(?:\r?\n)[ \t\r\n]*/y;
    return this.match(fold) === null ? this.escape() : "";
  }

  private escape(): string {
    const found = this.match(/\\(?:([btnfre"\\])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))/y);
    if (found === null) return this.fail();
    if (found[1] !== undefined) return ESCAPES[found[1]]!;
    const point = parseInt(found[2] ?? found[3] ?? found[4]!, 16);
    if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) this.fail();
    return String.fromCodePoint(point);
  }
}

const ESCAPES: Readonly<Record<string, string>> = { b: "\b", t: "\t", n: "\n", f: "\f", r: "\r", e: "\u001b", '"': '"', "\\": "\\" };

/** Nothing is added to an inline table, nor to a table in it. */
function closeAll(table: Table): void {
  table.origin = "inline";
  for (const value of table.entries.values()) if (value.kind === "table") closeAll(value);
}

function isDate(year: number, month: number, day: number): boolean {
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1]!;
}
