// One file that has everything inside: its parts, how it is filled, and how what it shows is compared with its record.
//
//   frame                     policy, style, code: the same in each file of one version, known by its digest
//   title, text, boot, parts  filled in; each has one place, and a form that admits nothing else

/** Bytes of all parts in one file, as base64 text; what is beyond goes into files beside it. */
export const MAX_EXPORT_BYTES = 64 * 2 ** 20;
export const SCHEMA = "threadseal.page/1";
/** By OWASP's advice of 2023 for PBKDF2 with SHA-256. */
export const ITERATIONS = 600_000;
/** A file that names more rounds would only keep a reader busy. */
const MAX_ITERATIONS = 10_000_000;
const MAX_PARTS = 10_000;

export interface PartEntry {
  readonly id: string;
  readonly log: string;
  readonly role: "log" | "seals" | "bodies" | "proof";
  readonly parent: string | null;
  readonly bytes: number;
  /** Of the plain bytes. */
  readonly sha256: string;
  /** The file beside this one that has the part; null: it is inside. */
  readonly file: string | null;
}

export interface Index {
  readonly name: string;
  readonly parts: readonly PartEntry[];
  /** Words for what was left out on purpose: `bodies`, `turns`. */
  readonly left_out: readonly string[];
}

export interface Lock {
  readonly kdf: "PBKDF2-SHA-256";
  readonly iterations: number;
  readonly salt: string;
  readonly cipher: "AES-256-GCM";
  /** The index, encrypted: names of logs are no less private than their text. */
  readonly index: string;
}

export interface Boot {
  readonly mode: "export";
  readonly schema: typeof SCHEMA;
  readonly index: Index | null;
  readonly lock: Lock | null;
}

export const TOKENS = ["@@TITLE@@", "@@TEXT@@", "@@BOOT@@", "@@PARTS@@"] as const;

const OPEN = ["<title>", '<pre id="text">', '<script type="application/json" id="boot">', "<!--parts-->\n"] as const;
const CLOSE = ["</title>", "</pre>", "</script>", "<!--/parts-->"] as const;

export interface Pieces {
  readonly title: string;
  readonly text: string;
  readonly boot: string;
  readonly parts: string;
  /** The file with tokens in the place of the four. */
  readonly frame: string;
}

/** Takes a file apart; null where it is no export of this form. */
export function takeApart(file: string): Pieces | null {
  const found: string[] = [];
  let frame = "";
  let at = 0;
  for (let n = 0; n < OPEN.length; n++) {
    const start = file.indexOf(OPEN[n]!, at);
    if (start < 0) return null;
    const from = start + OPEN[n]!.length;
    const to = file.indexOf(CLOSE[n]!, from);
    if (to < 0) return null;
    found.push(file.slice(from, to));
    frame += file.slice(at, from) + TOKENS[n]!;
    at = to;
  }
  frame += file.slice(at);
  return { title: found[0]!, text: found[1]!, boot: found[2]!, parts: found[3]!, frame };
}

const PART_FORM = /<script type="application\/octet-stream" id="(part-\d{1,5})">([A-Za-z0-9+/]*={0,2})<\/script>\n/y;

/** The parts inside, by their ids; null where anything else is between them. */
export function partsOf(parts: string): Map<string, string> | null {
  const found = new Map<string, string>();
  PART_FORM.lastIndex = 0;
  while (PART_FORM.lastIndex < parts.length) {
    const one = PART_FORM.exec(parts);
    if (one === null || found.has(one[1]!) || found.size >= MAX_PARTS) return null;
    found.set(one[1]!, one[2]!);
  }
  return found;
}

export function partText(id: string, bytes: Uint8Array): string {
  return `<script type="application/octet-stream" id="${id}">${base64(bytes)}</script>\n`;
}

/** Text that is safe between tags, whatever it is. */
export function escaped(words: string): string {
  return words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("\r", "&#13;").replaceAll("\u0000", "\ufffd");
}

export function unescaped(words: string): string {
  return words.replaceAll("&#13;", "\r").replaceAll("&gt;", ">").replaceAll("&lt;", "<").replaceAll("&amp;", "&");
}

/** JSON that cannot end its element. */
export function bootText(boot: Boot): string {
  return JSON.stringify(boot).replaceAll("<", "\\u003c");
}

export function readBoot(words: string): Boot {
  const boot = JSON.parse(words) as Boot;
  if (boot?.mode !== "export" || boot.schema !== SCHEMA) throw new Error("the file has a form that this page does not know");
  if (boot.index !== null) checkIndex(boot.index);
  return boot;
}

export function checkIndex(index: Index): Index {
  const isWhole = Array.isArray(index?.parts) && index.parts.length <= MAX_PARTS && Array.isArray(index.left_out) && typeof index.name === "string"
    && index.parts.every((one) => typeof one.id === "string" && typeof one.log === "string" && typeof one.sha256 === "string" && Number.isInteger(one.bytes));
  if (!isWhole) throw new Error("the index of the file cannot be read");
  return index;
}

// --------------------------------------------------------------------------------- compression, locks

export async function gzip(bytes: Uint8Array): Promise<Uint8Array> {
  return through(bytes, new CompressionStream("gzip"));
}

/** Refuses to grow beyond the size that the index names. */
export async function gunzip(bytes: Uint8Array, most: number): Promise<Uint8Array> {
  return through(bytes, new DecompressionStream("gzip"), most);
}

async function through(bytes: Uint8Array, transform: GenericTransformStream, most = Infinity): Promise<Uint8Array> {
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(transform as ReadableWritablePair<Uint8Array, Uint8Array<ArrayBuffer>>);
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) throw new Error("a part is larger than the index of the file states");
    parts.push(value);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export async function digest(bytes: Uint8Array): Promise<string> {
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>));
  return [...found].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function keyOf(passphrase: string, salt: Uint8Array, iterations: number): Promise<CryptoKey> {
  if (!Number.isInteger(iterations) || iterations < 1 || iterations > MAX_ITERATIONS) throw new Error("the file names an odd number of rounds");
  const secret = await crypto.subtle.importKey("raw", new TextEncoder().encode(passphrase.normalize("NFC")), "PBKDF2", false, ["deriveKey"]);
  const how = { name: "PBKDF2", hash: "SHA-256", salt: salt as Uint8Array<ArrayBuffer>, iterations };
  return crypto.subtle.deriveKey(how, secret, { name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]);
}

const NONCE_BYTES = 12;

/** A nonce, then the sealed bytes; the id of the part is bound to them. */
export async function lock(key: CryptoKey, id: string, bytes: Uint8Array): Promise<Uint8Array> {
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv: nonce, additionalData: new TextEncoder().encode(id) }, key, bytes as Uint8Array<ArrayBuffer>);
  const all = new Uint8Array(NONCE_BYTES + sealed.byteLength);
  all.set(nonce);
  all.set(new Uint8Array(sealed), NONCE_BYTES);
  return all;
}

export async function unlock(key: CryptoKey, id: string, bytes: Uint8Array): Promise<Uint8Array> {
  const nonce = bytes.slice(0, NONCE_BYTES);
  const opened = await crypto.subtle.decrypt({ name: "AES-GCM", iv: nonce, additionalData: new TextEncoder().encode(id) }, key, bytes.slice(NONCE_BYTES));
  return new Uint8Array(opened);
}

const CHUNK = 0x8000;

export function base64(bytes: Uint8Array): string {
  const parts: string[] = [];
  // Whole triples in each chunk, so that the texts join.
  for (let at = 0; at < bytes.length; at += 3 * CHUNK) {
    const chunk = bytes.subarray(at, at + 3 * CHUNK);
    let binary = "";
    for (let from = 0; from < chunk.length; from += CHUNK) binary += String.fromCharCode(...chunk.subarray(from, from + CHUNK));
    parts.push(btoa(binary));
  }
  return parts.join("");
}

export function fromBase64(words: string): Uint8Array {
  const all = new Uint8Array(Math.floor((words.length * 3) / 4));
  let length = 0;
  for (let at = 0; at < words.length; at += 4 * CHUNK) {
    const binary = atob(words.slice(at, at + 4 * CHUNK));
    for (let from = 0; from < binary.length; from++) all[length++] = binary.charCodeAt(from);
  }
  return all.subarray(0, length);
}
