// A log as a conversation: its lines become items, as the bytes come. Keeps the bytes, a short form of each item, and
// one buffer of text in lower case for search. What an item has in full is read again from its line.

import { fold } from "../fold.js";
import { type Bodies, withBodies } from "./bodies.js";
import { CLAUDE } from "./claude.js";
import { CODEX } from "./codex.js";
import { rowsOf } from "./compared.js";
import { LEDGER, NATIVE, SCROLL } from "./native.js";
import { GEMINI, OPENCODE, PI, PLAIN } from "./others.js";
import { type Facts, type Json, type Kind, type Mapped, type Mapper, type Part, type Tokens, isObject, text } from "./part.js";

const MAX_TITLE = 160;
/** Most characters of words that an item brings along; the rest is asked for. */
const MAX_ITEM_TEXT = 4000;
/** The same for results, events and all else that is folded. */
const MAX_FOLDED_TEXT = 240;
const MAX_ITEMS = 2_000_000;
/** A JSON document that is no list of lines is parsed whole up to this size. */
export const MAX_DOCUMENT_BYTES = 64 * 2 ** 20;
/** Search text is kept in chunks of this size, so that none is ever copied. */
const CHUNK_BYTES = 8 << 20;
/** Beyond so many characters in all, items bring along less. */
const MAX_TEXT_SENT = 16e6;
const MAX_LATE_TEXT = 300;

export type ItemKind = Exclude<Kind, "result">;

export interface Item {
  readonly i: number;
  readonly kind: ItemKind;
  turn: number;
  /** From 1. */
  readonly line: number;
  readonly time: number | null;
  readonly name: string;
  readonly text: string;
  /** The beginning of what the program put before the words. */
  readonly context: string;
  /** Characters of the whole text. */
  readonly length: number;
  /** The number of the exchange, from 0; -1 before the first. */
  readonly exchange: number;
  /** Null: no result yet, or none to come. */
  ok: boolean | null;
  result: string | null;
  resultLength: number;
  resultLine: number;
  agent: string | null;
  readonly images: number;
  /** Lines added and removed by a change. */
  added: number;
  removed: number;
  readonly model: string | null;
  tokens: Tokens | null;
  /** A later item took its place. */
  replaced: boolean;
  readonly why?: string;
}

export interface Exchange {
  readonly first: number;
  readonly title: string;
  readonly time: number | null;
  until: number | null;
  items: number;
  tools: number;
  errors: number;
  input: number;
  cached: number;
  output: number;
  cost: number;
}

/** Where the bytes of an item are. */
interface Place {
  readonly at: number;
  readonly end: number;
  readonly part: number;
}

export interface Full {
  readonly part: Part;
  readonly result: Part | null;
  readonly raw: string;
  readonly bytes: readonly [number, number];
}

export interface Found {
  /** Items with the words, in their order. */
  readonly items: Uint32Array;
}

/** What may change of an item that was sent. */
export type ItemChange = Pick<Item, "i" | "turn" | "ok" | "result" | "resultLength" | "resultLine" | "agent" | "tokens" | "replaced" | "added" | "removed">;

export interface Batch {
  readonly from: number;
  readonly items: Item[];
  readonly changed: ItemChange[];
  readonly exchanges: Exchange[];
  readonly facts: Facts;
  readonly format: string;
  readonly lines: number;
  readonly bytes: number;
}

const decoder = new TextDecoder("utf-8");
const encoder = new TextEncoder();

/** A part of the search text. */
interface TextChunk {
  readonly bytes: Uint8Array;
  length: number;
  /** For each piece, where it begins and whose it is. */
  readonly starts: number[];
  readonly items: number[];
}

export class SessionReader {
  readonly items: Item[] = [];
  readonly exchanges: Exchange[] = [];
  readonly facts: { -readonly [name in keyof Facts]: Facts[name] } = {};
  private mapper: Mapper | null = null;
  private bytes: Uint8Array;
  private length = 0;
  /** Where the next line begins. */
  private next = 0;
  private lines = 0;
  private turn = -1;
  private turnsByRecord = false;
  private sinceSeal = 0;
  private model: string | null = null;
  private readonly places: Place[] = [];
  private readonly results = new Map<number, Place>();
  private readonly calls = new Map<string, number>();
  private readonly keys = new Map<string, number>();
  private readonly usage = new Map<string, Tokens>();
  private document: Json | null = null;
  private documentItems: Json[] = [];
  private sent = 0;
  private readonly changed = new Set<number>();
  private readonly chunks: TextChunk[] = [];
  private textSent = 0;

  /** `bodies`: what a native record has in a file beside it. */
  constructor(size = 1 << 16, public bodies: Bodies | null = null) {
    this.bytes = new Uint8Array(Math.max(size, 1024));
  }

  get size(): number {
    return this.length;
  }

  get format(): string {
    return this.mapper?.format ?? "unknown";
  }

  slice(at: number, end: number): Uint8Array {
    return this.bytes.slice(at, Math.min(end, this.length));
  }

  push(chunk: Uint8Array): void {
    if (this.length + chunk.length > this.bytes.length) this.bytes = grown(this.bytes, this.length + chunk.length);
    this.bytes.set(chunk, this.length);
    this.length += chunk.length;
    if (this.document !== null) return;
    for (;;) {
      const end = this.bytes.subarray(0, this.length).indexOf(10, this.next);
      if (end < 0) break;
      if (!this.line(this.next, end)) return;
      this.next = end + 1;
    }
  }

  /** What comes after the last byte; more bytes may follow later, of a log that grows. */
  finish(): void {
    if (this.document !== null) return this.readDocument();
    if (this.next < this.length && !this.line(this.next, this.length)) return this.readDocument();
  }

  /** A log that grows: what was read of a last line without its end is read again. */
  resume(): void {
    if (this.next >= this.length) return;
    while (this.places.length > 0 && this.places.at(-1)!.at >= this.next) this.drop();
    this.lines--;
  }

  private drop(): void {
    const index = this.items.length - 1;
    this.items.pop();
    this.places.pop();
    this.results.delete(index);
    this.sent = Math.min(this.sent, index);
  }

  // ------------------------------------------------------------------------------------ one line

  /** False: the file is one JSON document, to be read at its end. */
  private line(at: number, end: number): boolean {
    if (end > at && this.bytes[end - 1] === 13) end--;
    const number = ++this.lines;
    if (end === at) return true;
    const value = parse(this.bytes.subarray(at, end));
    if (value === null && this.mapper === null && this.items.length === 0 && this.looksLikeDocument()) {
      this.document = {};
      return false;
    }
    const place = { at, end, part: 0 };
    if (value === null) {
      const words = decoder.decode(this.bytes.subarray(at, Math.min(end, at + MAX_FOLDED_TEXT)));
      this.add({ kind: "damaged", text: words, name: "no JSON" }, null, number, place);
      return true;
    }
    this.value(value, number, place);
    return true;
  }

  private looksLikeDocument(): boolean {
    const first = this.bytes.subarray(0, Math.min(this.length, 64)).find((byte) => byte > 32);
    return first === 0x7b || first === 0x5b;
  }

  private value(value: Json, line: number, place: Place): void {
    const hole = value["threadseal_redacted"];
    if (isObject(hole)) {
      this.turn++;
      this.add({ kind: "hole", name: "redacted", text: "", data: hole }, null, line, place);
      return;
    }
    if (this.mapper === null || this.mapper === PLAIN) this.mapper = detect(value);
    this.take(this.mapper.map(this.whole(value)), line, place);
  }

  private whole(value: Json): Json {
    return this.bodies !== null && this.mapper === NATIVE ? withBodies(value, this.bodies) : value;
  }

  private take(mapped: Mapped, line: number, place: Place): void {
    for (const [name, fact] of Object.entries(mapped.facts ?? {})) {
      if (typeof fact === "string" && fact !== "" && (this.facts as Json)[name] === undefined) (this.facts as { [name: string]: string })[name] = fact;
    }
    if (mapped.model !== undefined && mapped.model !== "" && mapped.model !== "<synthetic>") this.model = mapped.model;
    const first = this.items.length;
    const parts = mapped.parts;
    if (parts.length > 0 && !this.turnsByRecord) this.turn++;
    for (let part = 0; part < parts.length; part++) this.add(parts[part]!, mapped.time, line, { ...place, part });
    if (mapped.tokens !== undefined) this.count(mapped, first);
    if (mapped.cost !== undefined) {
      const exchange = this.exchanges.at(-1);
      if (exchange !== undefined) exchange.cost += mapped.cost;
    }
  }

  /** Usage counts once for each message, however many lines it has. */
  private count(mapped: Mapped, first: number): void {
    const tokens = mapped.tokens!;
    const before = mapped.usageKey === undefined ? undefined : this.usage.get(mapped.usageKey);
    if (mapped.usageKey !== undefined) this.usage.set(mapped.usageKey, tokens);
    const exchange = this.exchanges.at(-1);
    if (exchange !== undefined) {
      exchange.input += tokens.input - (before?.input ?? 0);
      exchange.cached += tokens.cached - (before?.cached ?? 0);
      exchange.output += tokens.output - (before?.output ?? 0);
    }
    const item = this.items[first] ?? this.items.at(-1);
    if (item !== undefined && before === undefined) {
      item.tokens = tokens;
      this.changed.add(item.i);
    }
  }

  private add(part: Part, time: number | null, line: number, place: Place): void {
    if (part.kind === "result") return this.join(part, line, place);
    if (this.items.length >= MAX_ITEMS) return;
    if (part.turn !== undefined) this.turnOfRecord(part);
    const i = this.items.length;
    if (part.key !== undefined) this.replace(part, i);
    if (part.begins === true) this.begin(part, i, time);
    const exchange = this.exchanges.at(-1);
    if (exchange !== undefined) {
      exchange.items++;
      if (part.kind === "tool") exchange.tools++;
      if (time !== null) exchange.until = time;
    }
    const isLong = part.kind === "user" || part.kind === "assistant" || part.kind === "reasoning" || part.kind === "compaction";
    const words = part.kind === "tool" ? summaryOf(part) : part.text;
    const sizes = sizesOf(part);
    this.items.push({
      i, kind: part.kind, turn: Math.max(this.turn, 0), line, time, name: part.name ?? "", text: this.brief(words, isLong), context: this.brief(part.context ?? "", false),
      length: part.kind === "tool" ? 0 : part.text.length, exchange: this.exchanges.length - 1, ok: null, result: null, resultLength: 0, resultLine: 0,
      agent: part.agent ?? null, images: part.images?.length ?? 0, added: sizes.added, removed: sizes.removed,
      model: part.kind === "assistant" || part.kind === "tool" ? this.model : null, tokens: null, replaced: false,
    });
    this.places.push(place);
    if (part.kind === "tool" && part.call !== undefined) this.calls.set(part.call, i);
    this.remember(i, part.text);
    if (part.context !== undefined) this.remember(i, part.context);
    if (part.data !== undefined) this.remember(i, `${part.name ?? ""} ${typeof part.data === "string" ? part.data : valuesOf(part.data)}`);
  }

  private brief(words: string, isLong: boolean): string {
    const most = !isLong ? MAX_FOLDED_TEXT : this.textSent > MAX_TEXT_SENT ? MAX_LATE_TEXT : MAX_ITEM_TEXT;
    this.textSent += Math.min(words.length, most);
    return words.slice(0, most);
  }

  /** Seals of a record name turns: what comes before a seal is of its turn. */
  private turnOfRecord(part: Part): void {
    this.turnsByRecord = true;
    if (part.kind === "seal") {
      for (let i = this.sinceSeal; i < this.items.length; i++) {
        const item = this.items[i]!;
        if (item.turn === part.turn) continue;
        item.turn = part.turn!;
        this.changed.add(i);
      }
      this.sinceSeal = this.items.length + 1;
      this.turn = part.turn! + 1;
    } else {
      this.turn = part.turn!;
    }
  }

  private replace(part: Part, i: number): void {
    const before = this.keys.get(part.key!);
    if (before !== undefined) {
      this.items[before]!.replaced = true;
      this.changed.add(before);
    }
    this.keys.set(part.key!, i);
  }

  private begin(part: Part, i: number, time: number | null): void {
    const title = own(part.text.slice(0, 4 * MAX_TITLE).replace(/\s+/g, " ").trim().slice(0, MAX_TITLE));
    this.exchanges.push({ first: i, title, time, until: time, items: 0, tools: 0, errors: 0, input: 0, cached: 0, output: 0, cost: 0 });
  }

  private join(part: Part, line: number, place: Place): void {
    const index = part.call === undefined ? undefined : this.calls.get(part.call);
    const item = index === undefined ? undefined : this.items[index];
    if (index === undefined || item === undefined) {
      this.add({ ...part, kind: "system", name: "result of no known call" }, null, line, place);
      return;
    }
    item.ok = part.ok ?? null;
    item.result = own(part.text.slice(0, MAX_FOLDED_TEXT));
    item.resultLength = part.text.length;
    item.resultLine = line;
    item.agent ??= part.agent ?? null;
    // What was done counts, where the result has it: it is what is shown.
    if (part.changes?.length) Object.assign(item, sizesOf(part));
    if (part.ok === false) {
      const exchange = this.exchanges[item.exchange];
      if (exchange !== undefined) exchange.errors++;
    }
    this.results.set(index, place);
    this.changed.add(index);
    this.remember(index, part.text);
  }

  // ------------------------------------------------------------------------------------ documents

  private readDocument(): void {
    const value = this.length > MAX_DOCUMENT_BYTES ? null : parse(this.bytes.subarray(0, this.length));
    const whole = { at: 0, end: this.length, part: 0 };
    if (value === null) {
      this.add({ kind: "damaged", text: "", name: this.length > MAX_DOCUMENT_BYTES ? "too large to show" : "no JSON" }, null, 1, whole);
      return;
    }
    this.document = value;
    const list = Array.isArray(value) ? value : value["messages"] ?? value["turns"] ?? value["steps"];
    this.documentItems = Array.isArray(list) ? list.filter(isObject) : [];
    if (isObject(value["info"])) {
      this.facts.agent = "opencode";
      this.facts.project = text(value["info"]["directory"]);
      this.facts.title = text(value["info"]["title"]);
      this.facts.version = text(value["info"]["version"]);
    }
    this.mapper = this.documentItems.length === 0 ? PLAIN : detect(this.documentItems[0]!);
    if (this.documentItems.length === 0) this.documentItems = [value];
    this.documentItems.forEach((one, index) => this.take(this.mapper!.map(one), index + 1, whole));
  }

  // ------------------------------------------------------------------------------------- answers

  /** What is new since the last call. */
  batch(): Batch {
    const from = this.sent;
    const items = this.items.slice(from);
    const changed = [...this.changed].filter((i) => i < from).map((i) => changeOf(this.items[i]!));
    this.sent = this.items.length;
    this.changed.clear();
    // What was sent is in the page; here the line is enough.
    for (let i = from; i < this.sent; i++) this.items[i] = { ...this.items[i]!, text: "" };
    return { from, items, changed, exchanges: this.exchanges, facts: this.facts, format: this.format, lines: this.lines, bytes: this.length };
  }

  full(i: number): Full | null {
    const place = this.places[i];
    const item = this.items[i];
    if (place === undefined || item === undefined) return null;
    const part = this.partAt(place, item.line);
    const other = this.results.get(i);
    const result = other === undefined ? null : this.partAt(other, item.resultLine);
    const raw = this.document !== null ? JSON.stringify(this.documentItems[item.line - 1] ?? null, null, 2)
      : decoder.decode(this.bytes.subarray(place.at, place.end));
    return part === null ? null : { part, result, raw, bytes: [place.at, place.end] };
  }

  private partAt(place: Place, line: number): Part | null {
    const value = this.document !== null ? this.documentItems[line - 1] ?? null : parse(this.bytes.subarray(place.at, place.end));
    if (value === null) return { kind: "damaged", name: "no JSON", text: decoder.decode(this.bytes.subarray(place.at, place.end)) };
    if (isObject(value["threadseal_redacted"])) return { kind: "hole", name: "redacted", text: "", data: value["threadseal_redacted"] };
    return this.mapper?.map(this.whole(value)).parts[place.part] ?? null;
  }

  // -------------------------------------------------------------------------------------- search

  private remember(i: number, words: string): void {
    if (words === "") return;
    const folded = fold(words);
    let chunk = this.chunks.at(-1);
    // A text that is no ASCII may take three bytes a character.
    if (chunk === undefined || chunk.length + 3 * folded.length + 1 > chunk.bytes.length) {
      chunk = { bytes: new Uint8Array(Math.max(CHUNK_BYTES, 3 * folded.length + 1)), length: 0, starts: [], items: [] };
      this.chunks.push(chunk);
    }
    chunk.starts.push(chunk.length);
    chunk.items.push(i);
    chunk.length += encoder.encodeInto(folded, chunk.bytes.subarray(chunk.length)).written;
    chunk.bytes[chunk.length++] = 0;
  }

  /** The items that have these words, in their order; upper and lower case are one. */
  search(query: string): Found {
    const needle = encoder.encode(fold(query));
    const items: number[] = [];
    if (needle.length > 0) for (const chunk of this.chunks) this.searchChunk(chunk, needle, items);
    return { items: Uint32Array.from(new Set(items)).sort() };
  }

  private searchChunk(chunk: TextChunk, needle: Uint8Array, items: number[]): void {
    const words = chunk.bytes.subarray(0, chunk.length);
    const skip = skipsOf(needle);
    let piece = 0;
    for (let at = indexOf(words, needle, skip, 0); at >= 0; at = indexOf(words, needle, skip, at)) {
      while (piece + 1 < chunk.starts.length && chunk.starts[piece + 1]! <= at) piece++;
      const i = chunk.items[piece]!;
      if (this.items[i]?.replaced === false) items.push(i);
      // The rest of the piece is passed over.
      at = chunk.starts[piece + 1] ?? chunk.length;
    }
  }
}

/** A text of its own: a slice would keep all of the text that it was cut from. */
function own(words: string): string {
  return words.split("").join("");
}

function changeOf(item: Item): ItemChange {
  const { i, turn, ok, result, resultLength, resultLine, agent, tokens, replaced, added, removed } = item;
  return { i, turn, ok, result, resultLength, resultLine, agent, tokens, replaced, added, removed };
}

function skipsOf(needle: Uint8Array): Uint16Array {
  const last = needle.length - 1;
  const skip = new Uint16Array(256).fill(Math.min(needle.length, 0xffff));
  for (let at = 0; at < last; at++) skip[needle[at]!] = Math.min(last - at, 0xffff);
  return skip;
}

/** Horspool's search; a short needle is found by its first byte. */
function indexOf(text: Uint8Array, needle: Uint8Array, skip: Uint16Array, from: number): number {
  const length = needle.length;
  if (length === 1) return text.indexOf(needle[0]!, from);
  const last = length - 1;
  const end = text.length;
  const final = needle[last]!;
  for (let at = from + last; at < end; at += skip[text[at]!]!) {
    if (text[at] !== final) continue;
    let back = 1;
    while (back <= last && text[at - back] === needle[last - back]) back++;
    if (back > last) return at - last;
  }
  return -1;
}

function grown(bytes: Uint8Array, room: number): Uint8Array {
  const larger = new Uint8Array(Math.max(room, Math.ceil(bytes.length * 1.5)));
  larger.set(bytes);
  return larger;
}

function parse(bytes: Uint8Array): Json | null {
  try {
    const value: unknown = JSON.parse(decoder.decode(bytes));
    return typeof value === "object" && value !== null ? value as Json : null;
  } catch {
    return null;
  }
}

/** Whose line it is. */
function detect(value: Json): Mapper {
  const type = value["type"];
  if (typeof value["event_type"] === "string") return NATIVE;
  if (value["version"] === "scroll/0.1" || value["timestamp_ns"] !== undefined && value["messages"] !== undefined) return SCROLL;
  if (value["step_id"] !== undefined && value["node_id"] !== undefined) return LEDGER;
  if (value["projectHash"] !== undefined || value["$set"] !== undefined || type === "gemini") return GEMINI;
  if (type === "session" && value["version"] !== undefined) return PI;
  if (isObject(value["info"]) && Array.isArray(value["parts"])) return OPENCODE;
  if (type === "session_meta" || type === "response_item" || value["record_type"] !== undefined || type === "function_call") return CODEX;
  if (value["sessionId"] !== undefined || value["parentUuid"] !== undefined || type === "summary" || type === "file-history-snapshot") return CLAUDE;
  return PLAIN;
}

/** One line about a call, from its arguments. */
function summaryOf(part: Part): string {
  const input = part.data;
  if (typeof input === "string") return input.replace(/\s+/g, " ").slice(0, MAX_FOLDED_TEXT);
  if (!isObject(input)) return "";
  const named = input["command"] ?? input["cmd"] ?? input["pattern"] ?? input["query"] ?? input["file_path"] ?? input["filePath"] ?? input["path"]
    ?? input["url"] ?? input["description"] ?? input["prompt"];
  if (Array.isArray(named)) return named.map(text).join(" ").slice(0, MAX_FOLDED_TEXT);
  if (typeof named === "string") return named.replace(/\s+/g, " ").slice(0, MAX_FOLDED_TEXT);
  return JSON.stringify(input).slice(0, MAX_FOLDED_TEXT);
}

/** The same count as that of the change when it is shown. */
function sizesOf(part: Part): { added: number; removed: number } {
  const marks = (part.changes ?? []).flatMap(rowsOf).map(([mark]) => mark);
  return { added: marks.filter((mark) => mark === "+").length, removed: marks.filter((mark) => mark === "-").length };
}

/** The texts and numbers in a value, without its punctuation, so that words in it are found as they are shown. */
function valuesOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(valuesOf).join(" ");
  if (isObject(value)) return Object.entries(value).map(([name, one]) => `${name} ${valuesOf(one)}`).join(" ");
  return String(value);
}
