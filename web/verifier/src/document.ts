// Signed documents: native seals in the file and beside it, and Rye's signature.
// Rules: spec/documents.md. Not here: Rye's own answer (`compat.rye`), documents that moved (§8.3).

import { concat, hex, parseBase64Url, parseHex, parseUtf8, utf8 } from "./bytes.js";
import {
  type Json,
  type JsonObject,
  type JsonString,
  type Reading,
  memberOf,
  readPython,
  readStrict,
  rye,
  textOf,
  without,
} from "./canon.js";
import { isPublicKey, ryeFingerprint, verify } from "./ed25519.js";
import { parseHead } from "./heads.js";
import { isPythonSpace } from "./pytext.js";
import { Report, type Severity, type Verdict, isEvidence } from "./report.js";
import { sha256, tagged } from "./sha256.js";
import { type Format, type Judgement, type Trust, type Usage, counts, judge, knownKeys, rowOf, signerOf } from "./trust.js";
import { parseToml } from "./toml.js";

export const MAX_DOCUMENT_BYTES = 67_108_864;
export const MAX_BESIDE_BYTES = 512;
export const MAX_KEY_FILE_BYTES = 64 * 1024;
const MAX_SEQ = 2n ** 64n - 1n;
const SIGNATURE_CHARACTERS = 86;

export type Kind = "json" | "markdown" | "yaml" | "toml" | "python" | "shell" | "javascript";
export type Profile = "auto" | "native" | "rye";
export type Item = "directive" | "knowledge" | "tool" | "config";

export interface DocumentOptions {
  readonly name: string | null;
  readonly trust: Trust;
  readonly profile?: Profile;
  readonly item?: Item;
  readonly head?: string;
  readonly exact?: boolean;
  readonly thread?: string;
}

// ------------------------------------------------------------------------------------------ kinds

const ENDINGS: readonly (readonly [string, Kind])[] = [
  [".json", "json"],
  [".md", "markdown"],
  [".yaml", "yaml"],
  [".yml", "yaml"],
  [".toml", "toml"],
  [".py", "python"],
  [".sh", "shell"],
  [".js", "javascript"],
  [".ts", "javascript"],
  [".mjs", "javascript"],
  [".cjs", "javascript"],
];

const KINDS: readonly Kind[] = ["json", "markdown", "yaml", "toml", "python", "shell", "javascript"];

interface Comment {
  readonly begin: string;
  readonly end: string;
  readonly kind: Kind;
}

const COMMENTS: readonly Comment[] = [
  { begin: "<!-- ", end: " -->", kind: "markdown" },
  { begin: "# ", end: "", kind: "shell" },
  { begin: "// ", end: "", kind: "javascript" },
];

function commentOf(kind: Kind): Comment {
  return COMMENTS[kind === "markdown" ? 0 : kind === "javascript" ? 2 : 1]!;
}

function commentAt(line: string, word: string): Comment | null {
  return COMMENTS.find((comment) => line.startsWith(comment.begin + word)) ?? null;
}

/** documents.md §1; null where neither name nor content decides. */
export function kindOf(name: string | null, b: Uint8Array): Kind | null {
  const last = (name ?? "").split(/[/\\]/).pop()!.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  for (const [ending, kind] of ENDINGS) if (last.endsWith(ending) && last.length > ending.length) return kind;
  return kindByContent(new TextDecoder("utf-8", { ignoreBOM: true }).decode(b));
}

function kindByContent(text: string): Kind | null {
  if (/^[ \t\n\r]*\{/.test(text)) return "json";
  const lines = text.split("\n");
  for (let i = lines.length - 1; i >= 0; i--) {
    const comment = commentAt(lines[i]!, "threadseal:signed:");
    if (comment === null) continue;
    return claimOfLine(lines[i]!, 0, i < lines.length - 1, true, false).seal?.kind ?? comment.kind;
  }
  for (const line of lines) {
    const comment = commentAt(line, "rye:signed:");
    if (comment !== null && line.includes("|threadseal@")) return comment.kind;
  }
  if (/"_threadseal"[ \t\n\r]*:[ \t\n\r]*"threadseal:signed:/.test(text)) return "json";
  const [first, second] = text.split(/\r\n|\r|\n/, 2);
  const header = first!.startsWith("#!/") ? (second ?? "") : first!;
  return commentAt(header, "rye:signed:")?.kind ?? null;
}

// ------------------------------------------------------------------------------------- native seal

interface Seal {
  readonly kind: Kind;
  readonly record: string;
  readonly seq: bigint;
  readonly key: Uint8Array;
  readonly signature: Uint8Array;
}

const SEAL =
  /^1-(json|markdown|yaml|toml|python|shell|javascript)-([0-9a-f]{64})-(0|[1-9][0-9]*)-([0-9]{8}T[0-9]{6}Z)-([0-9a-f]{64})-([A-Za-z0-9_-]{86})$/;

/** documents.md §2: the seal that the text spells, else null. */
function parseSeal(text: string): Seal | null {
  const p = SEAL.exec(text);
  if (p === null) return null;
  const seq = BigInt(p[3]!);
  const key = parseHex(p[5]!, 32);
  const signature = parseBase64Url(p[6]!);
  if (seq > MAX_SEQ || !isSealTime(p[4]!) || key === null || !isPublicKey(key)) return null;
  if (signature === null || signature.length !== 64) return null;
  return { kind: p[1] as Kind, record: p[2]!, seq, key, signature };
}

function isSealTime(text: string): boolean {
  const spread = `${text.slice(0, 4)}-${text.slice(4, 6)}-${text.slice(6, 11)}:${text.slice(11, 13)}:${text.slice(13)}`;
  return isMoment(spread);
}

/** `YYYY-MM-DDTHH:MM:SSZ` of a moment that exists, from 1970 to 9999. */
export function isMoment(text: string): boolean {
  const p = /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z$/.exec(text);
  if (p === null) return false;
  const [year, month, day, hour, minute, second] = p.slice(1).map(Number) as [number, number, number, number, number, number];
  if (year < 1970 || hour > 23 || minute > 59 || second > 59) return false;
  const date = new Date(Date.UTC(year, month - 1, day));
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day && month > 0;
}

/** Something that claims to be a native seal; `seal` is null where §2 or §3 do not allow it. */
interface Claim {
  readonly seal: Seal | null;
  /** The places of SIGNATURE in the file. */
  readonly from: number;
  readonly to: number;
  readonly isLast: boolean;
}

function claim(seal: Seal | null, to: number, isLast = true): Claim {
  return { seal, from: to - SIGNATURE_CHARACTERS, to, isLast };
}

const NOT_ALLOWED = claim(null, 0);

/** Bytes as text of one character a byte. */
function latin(b: Uint8Array): string {
  return new TextDecoder("latin1").decode(b);
}

/** The claims of a text (documents.md §3). `raw` is `latin` of the file. */
function claimsOfText(raw: string, kind: Kind): Claim[] {
  const claims: Claim[] = [];
  const header = headerOf(raw, kind);
  for (let from = 0; from < raw.length; ) {
    const lf = raw.indexOf("\n", from);
    const to = lf < 0 ? raw.length : lf;
    const comment = commentAt(raw.slice(from, Math.min(to, from + 40)), "threadseal:signed:");
    if (comment !== null) claims.push(claimOfLine(raw.slice(from, to), from, lf >= 0, to + 1 >= raw.length, header !== null));
    from = to + 1;
  }
  if (header !== null && isSuffixClaim(header.fields)) claims.push(claimOfHeader(raw, header, kind));
  return claims;
}

function claimOfLine(line: string, from: number, ended: boolean, isLast: boolean, header: boolean): Claim {
  const start = line.indexOf("threadseal:signed:") + "threadseal:signed:".length;
  const named = KINDS.find((kind) => line.slice(start).startsWith(`1-${kind}-`)) ?? null;
  const comment = named === null || named === "json" ? null : commentOf(named);
  const allowed = comment !== null && ended && !header && line.startsWith(comment.begin) && line.endsWith(comment.end);
  const seal = allowed ? parseSeal(line.slice(start, line.length - comment.end.length)) : null;
  if (seal === null || comment === null) return { ...NOT_ALLOWED, isLast };
  return claim(seal, from + line.length - comment.end.length, isLast);
}

function isSuffixClaim(fields: Fields): boolean {
  return fields.provider === "threadseal" || (fields.user !== null && SEAL.test(fields.user));
}

function claimOfHeader(raw: string, header: Header, kind: Kind): Claim {
  const end = header.at + header.fields.length;
  const ended = raw.startsWith(`${commentOf(kind).end}\n`, end);
  const seal = ended && header.fields.provider === "threadseal" ? parseSeal(header.fields.user ?? "") : null;
  return seal === null ? NOT_ALLOWED : claim(seal, end);
}

/** The claims of JSON whose outermost value is an object (documents.md §3). */
function claimsOfJson(b: Uint8Array, tree: JsonObject): Claim[] {
  const claims: Claim[] = [];
  const spelled = (value: JsonString): string => latin(b.subarray(value.from + 1, value.to - 1));
  const signature = memberOf(tree, "_signature");
  const signed = hasRyeSignature(tree);
  for (const member of tree.members) {
    const { value } = member;
    const plainName = latin(b.subarray(member.nameAt.from, member.nameAt.to)) === `"${member.name}"`;
    if (member.name === "_threadseal") {
      const text = value.kind === "string" && !value.escaped && plainName && !signed ? spelled(value) : "";
      const seal = text.startsWith("threadseal:signed:") ? parseSeal(text.slice("threadseal:signed:".length)) : null;
      claims.push(seal === null ? NOT_ALLOWED : claim(seal, value.to - 1));
    }
    if (member.name === "_signature" && value === signature && value.kind === "string") {
      const fields = parseFields(value.value);
      if (fields === null || !isSuffixClaim(fields)) continue;
      const whole = fields.length === value.value.length && !value.escaped && plainName;
      const seal = whole && fields.provider === "threadseal" ? parseSeal(fields.user ?? "") : null;
      claims.push(seal === null ? NOT_ALLOWED : claim(seal, value.to - 1));
    }
  }
  return claims;
}

// ------------------------------------------------------------------------------------ Rye's fields

interface Fields {
  readonly time: string;
  readonly hash: string;
  readonly signature: string;
  readonly fingerprint: string;
  readonly provider: string | null;
  readonly user: string | null;
  /** Of the text that FIELDS take. */
  readonly length: number;
}

const FIELDS =
  /rye:signed:(\p{Nd}{4}-\p{Nd}{2}-\p{Nd}{2}T\p{Nd}{2}:\p{Nd}{2}:\p{Nd}{2}Z):([a-f0-9]{64}):([A-Za-z0-9_-]+={0,2}):([a-f0-9]{16})(?:\|([A-Za-z0-9_-]+)@([A-Za-z0-9_-]+))?/uy;

/** FIELDS at a place of the text, whatever follows. */
function parseFields(text: string, at = 0): Fields | null {
  FIELDS.lastIndex = at;
  const p = FIELDS.exec(text);
  if (p === null) return null;
  return {
    time: p[1]!, hash: p[2]!, signature: p[3]!, fingerprint: p[4]!,
    provider: p[5] ?? null, user: p[6] ?? null, length: p[0].length,
  };
}

/** A header line: where it begins, where its FIELDS begin, and where its line ends (the LF not included). */
interface Header {
  readonly from: number;
  readonly at: number;
  readonly end: number;
  readonly fields: Fields;
}

function headerAt(text: string, from: number, kind: Kind): Header | null {
  const { begin } = commentOf(kind);
  if (!text.startsWith(begin, from)) return null;
  const fields = parseFields(text, from + begin.length);
  if (fields === null) return null;
  const lf = text.indexOf("\n", from);
  return { from, at: from + begin.length, end: lf < 0 ? text.length : lf, fields };
}

/** The header of a text at the places of documents.md §5. */
function headerOf(text: string, kind: Kind, item: Item | null = null): Header | null {
  const first = headerAt(text, 0, kind);
  if (first !== null) return first;
  const second = kind !== "markdown" && kind !== "javascript" && item !== "config";
  if (!second || !text.startsWith("#!/")) return null;
  const lf = text.indexOf("\n");
  return lf < 0 ? null : headerAt(text, lf + 1, kind);
}

// ------------------------------------------------------------------------- what Rye hashes of a text

interface Range {
  readonly from: number;
  readonly to: number;
}

function withLineFeeds(text: string): string {
  return text.replace(/\r\n?/g, "\n");
}

/** The place behind a removable header at `from`, or `from`. */
function behindRemovable(text: string, from: number, kind: Kind): number {
  const { begin } = commentOf(kind);
  if (!text.startsWith(begin, from)) return from;
  const words = /(?:rye|kiwi-mcp):(?:validated|signed):/y;
  words.lastIndex = from + begin.length;
  if (!words.test(text)) return from;
  const rest = words.lastIndex;
  if (kind !== "markdown") {
    const lf = text.indexOf("\n", rest);
    return lf > rest ? lf + 1 : from;
  }
  const close = text.indexOf(">", rest);
  const fits = close - 2 > rest && text.slice(close - 2, close) === "--" && text[close + 1] === "\n";
  return fits ? close + 2 : from;
}

/** The hashed part of a text by the rule of its type (documents.md §6); null for a directive without a block. */
function hashedPart(text: string, kind: Kind, item: Item): Range | null {
  if (item === "directive") return directivePart(text);
  if (item === "knowledge") return knowledgePart(text);
  const first = behindShebang(text, 0);
  if (first > 0) return { from: behindRemovable(text, first, kind), to: text.length };
  return { from: behindShebang(text, behindRemovable(text, 0, kind)), to: text.length };
}

/** The place behind a shebang line at `from`, or `from`. */
function behindShebang(text: string, from: number): number {
  const lf = text.startsWith("#!/", from) ? text.indexOf("\n", from) : -1;
  return lf < 0 ? from : lf + 1;
}

function directivePart(text: string): Range | null {
  const from = text.indexOf("<directive");
  if (from < 0 || text.indexOf(">", from + "<directive".length) < 0) return null;
  const end = text.lastIndexOf("</directive>");
  return end < from ? null : { from, to: end + "</directive>".length };
}

function knowledgePart(text: string): Range {
  let from = behindRemovable(text, 0, "markdown");
  let to = text.length;
  if (!text.startsWith("---", from)) return { from, to };
  const further = text.indexOf("---", from + 3);
  if (further < 0) return { from, to };
  from = further + 3;
  while (from < to && isPythonSpace(text.charCodeAt(from))) from += 1;
  while (to > from && isPythonSpace(text.charCodeAt(to - 1))) to -= 1;
  return { from, to };
}

function hashOf(text: string, range: Range | null): string | null {
  return range === null ? null : hex(sha256(utf8(text.slice(range.from, range.to))));
}

// ------------------------------------------------------------------------------------------ judging

type RyeState = { readonly present: boolean; readonly check: (judge: Judge) => Promise<void> };

const NO_RYE: RyeState = { present: false, check: async () => {} };

function hasRyeSignature(tree: Json): boolean {
  const signature = memberOf(tree, "_signature");
  return signature !== null && signature.kind !== "null" && textOf(signature) !== "";
}

/** documents.md §8, of the file and what is in it. */
export async function verifyDocument(b: Uint8Array, kind: Kind, options: DocumentOptions): Promise<Report> {
  return new Judge(b, kind, options).inFile();
}

/** documents.md §3, place 4: of the seal beside a file. */
export async function verifyBeside(b: Uint8Array, seal: Uint8Array, kind: Kind, options: DocumentOptions): Promise<Report> {
  return new Judge(b, kind, options).beside(seal);
}

interface GoodSeal {
  readonly seal: Seal;
  readonly content: string;
  readonly size: number;
}

class Judge {
  private readonly report: Report;
  private readonly format: Format;
  private readonly profile: Profile;
  private seal: GoodSeal | null = null;
  private gaps = false;
  /** A finding of exit 1 of steps 1, 5 or 7: of the file, whatever signs it. */
  private ownEvidence = false;
  private thread: string | null = null;
  private counted: "native" | "rye" | "none" = "none";

  constructor(
    private readonly b: Uint8Array,
    private readonly kind: Kind,
    private readonly options: DocumentOptions,
  ) {
    this.format = kind === "json" ? "json" : "text";
    this.profile = options.profile ?? "auto";
    this.report = new Report(this.format, "none");
  }

  async inFile(): Promise<Report> {
    if (this.kind === "json") await this.json();
    else await this.text();
    return this.finish();
  }

  async beside(file: Uint8Array): Promise<Report> {
    if (this.b.length > MAX_DOCUMENT_BYTES) this.own("malformed", "too_large");
    else {
      const python = this.kind === "json" ? readPython(this.b) : null;
      this.threadOf(python?.ok === true ? python.value : null);
      await this.natively([claimBeside(file)], () => tagged("threadseal/1 document beside", [this.b, file.subarray(0, file.length - SIGNATURE_CHARACTERS - 1)]), false);
      if (this.profile === "rye") this.counted = "none";
    }
    return this.finish();
  }

  private error(verdict: Verdict, code: string): void {
    this.report.downgrade(verdict, code, "error");
  }

  private own(verdict: Verdict, code: string): void {
    this.error(verdict, code);
    this.ownEvidence = true;
  }

  /** Step 1: the reading of JSON, `text`, or null where nothing can be read. */
  private readable(): Reading | "text" | null {
    if (this.b.length > MAX_DOCUMENT_BYTES) {
      this.own("malformed", "too_large");
      return null;
    }
    if (this.kind !== "json") {
      if (parseUtf8(this.b) !== null) return "text";
      this.own("malformed", "not_utf8");
      return null;
    }
    const reading = readPython(this.b);
    if (reading.ok) return reading;
    this.own("malformed", "not_json");
    return null;
  }

  private threadOf(tree: Json | null): void {
    this.thread = textOf(memberOf(tree, "thread_id"));
  }

  private async json(): Promise<void> {
    const reading = this.readable();
    if (reading === null || reading === "text" || !reading.ok) return;
    const tree = reading.value;
    this.threadOf(tree);
    const claims = tree.kind === "object" ? claimsOfJson(this.b, tree) : [];
    const rye: RyeState =
      tree.kind === "object" && hasRyeSignature(tree)
        ? { present: true, check: (self) => self.ryeJson(tree) }
        : NO_RYE;
    await this.both(claims, rye);
    const irregular = (kind: string): boolean => reading.irregular.some((i) => i.kind === kind);
    if (irregular("duplicate_key")) {
      const claimed = claims.length > 0 || rye.present;
      if (claimed) this.own("tampered", "duplicate_key");
      else this.report.downgrade(null, "duplicate_key", "warning");
    }
    if (irregular("non_finite") || irregular("lone_surrogate")) this.report.downgrade(null, "nonstandard_json", "warning");
    if (textOf(memberOf(tree, "_signature")) === "") this.report.downgrade(null, "signature_empty", "warning");
  }

  private async text(): Promise<void> {
    if (this.readable() === null) return;
    const raw = parseUtf8(this.b)!;
    const text = withLineFeeds(raw);
    const claims = claimsOfText(latin(this.b), this.kind);
    const header = headerOf(text, this.kind, this.options.item ?? null);
    const rye: RyeState =
      header === null ? NO_RYE : { present: true, check: (self) => self.ryeText(raw, text, header, claims.length > 0) };
    await this.both(claims, rye);
    if (claims.length === 0 && header === null && looksSigned(raw)) {
      this.report.downgrade(null, "header_not_read", "warning");
    }
    if (this.kind === "toml") this.keyFile(text, header, claims.length > 0);
  }

  /** Steps 2, 3 and 6. */
  private async both(claims: readonly Claim[], ryeState: RyeState): Promise<void> {
    const native = claims.length > 0;
    if (this.profile !== "rye" && native) this.counted = "native";
    else if (this.profile !== "native" && ryeState.present) this.counted = "rye";
    if (native) await this.natively(claims, (c) => tagged("threadseal/1 document content", [this.b.subarray(0, c.from), this.b.subarray(c.to)]), true);
    await ryeState.check(this);
  }

  /** Step 2. */
  private async natively(claims: readonly Claim[], contentOf: (claim: Claim) => Uint8Array, inFile: boolean): Promise<void> {
    if (!inFile) this.counted = "native";
    const strict = inFile && this.kind === "json" ? readStrict(this.b) : null;
    const [only] = claims;
    if (only === undefined) return;
    if (strict !== null && !strict.ok) {
      const twice = strict.refusal.kind === "duplicate_key";
      this.error(twice ? "tampered" : "malformed", twice ? "duplicate_key" : "not_strict_json");
    } else if (claims.length > 1) this.error("tampered", "several_seals");
    else if (!only.isLast) this.error("tampered", "seal_not_last");
    else if (only.seal === null) this.error("malformed", "seal_unreadable");
    else await this.sealed(only.seal, contentOf(only));
  }

  private async sealed(seal: Seal, content: Uint8Array): Promise<void> {
    this.seal = { seal, content: hex(content), size: this.b.length };
    if (seal.kind !== this.kind) this.error("foreign", "other_kind");
    const message = concat(utf8("threadseal/1 signed digest\0"), tagged("threadseal/1 document", [content]));
    if (!(await verify(seal.key, message, seal.signature))) {
      this.error("tampered", "seal_mismatch");
      this.rejected(seal.key);
    } else this.signer(seal.key, "native", this.counted === "native");
  }

  private rejected(key: Uint8Array): void {
    const judgement: Judgement = { standing: "unknown", name: null };
    this.report.signers.push({ ...signerOf(key, judgement), status: "rejected" });
  }

  // ---------------------------------------------------------------------------------- step 3 and 4

  private signer(key: Uint8Array, usage: Usage, matters: boolean): void {
    const judgement = judge(key, { usage, format: this.format, thread: this.thread }, this.options.trust);
    if (matters) this.report.signers.push(signerOf(key, judgement));
    this.tellStanding(judgement.standing, matters);
  }

  private tellStanding(standing: Judgement["standing"], matters: boolean): void {
    if (counts(standing)) return;
    const row = rowOf(standing);
    const code = standing === "unknown" ? "unknown_signer" : standing === "expired" ? "key_expired" : row.code;
    if (code !== null) this.report.downgrade(matters ? row.verdict : null, code, matters ? row.severity : "note");
  }

  /** The table of step 3, but for the hash and the places. */
  private async fields(fields: Fields): Promise<void> {
    if (!isMoment(fields.time)) this.error("malformed", "impossible_time");
    this.report.unauthenticated.push(`timestamp=${fields.time}`);
    if (fields.provider !== null && !isSuffixClaim(fields)) {
      this.report.unauthenticated.push(`provenance=${fields.provider}@${fields.user ?? ""}`);
    }
    const matters = this.counted === "rye";
    const signature = ryeSignature(fields.signature);
    if (signature === null) {
      this.error("forged", "signature_encoding");
      this.report.signers.push({ key: fields.fingerprint, did: null, name: null, status: "rejected" });
      return;
    }
    const keys = knownKeys(this.options.trust).filter((key) => ryeFingerprint(key) === fields.fingerprint);
    if (keys.length === 0) {
      const standing = this.options.trust.pins.length > 0 ? "not_pinned" : "unknown";
      if (matters) {
        this.report.signers.push({ key: fields.fingerprint, did: null, name: null, status: rowOf(standing).status });
      }
      this.tellStanding(standing, matters);
      return;
    }
    for (const key of keys) {
      if (!(await verify(key, utf8(fields.hash), signature))) continue;
      this.signer(key, "rye", matters);
      return;
    }
    this.error("forged", "bad_signature");
    this.rejected(keys[0]!);
  }

  /** Gaps count only where Rye's signature counts; under profile *rye* they have no verdict. */
  private gap(verdict: Verdict, code: string, severity: Severity): void {
    if (this.counted !== "rye") return;
    this.gaps = true;
    if (this.profile === "rye") this.report.downgrade(null, code, "warning");
    else this.report.downgrade(verdict, code, severity);
  }

  async ryeJson(tree: JsonObject): Promise<void> {
    const text = textOf(memberOf(tree, "_signature"));
    if (text === null) {
      this.error("malformed", "signature_not_text");
      return;
    }
    const fields = parseFields(text);
    if (fields === null) {
      this.error("malformed", "signature_unreadable");
      return;
    }
    if (hex(sha256(rye(without(tree, ["_signature"])))) !== fields.hash) this.error("tampered", "content_modified");
    if (fields.length < text.length) this.error("malformed", "signature_tail");
    await this.fields(fields);
    if (isThreadJsonIncomplete(tree)) this.gap("malformed", "thread_json_incomplete", "error");
  }

  async ryeText(raw: string, text: string, header: Header, claimed: boolean): Promise<void> {
    const { fields } = header;
    const item = this.itemOf(text, fields.hash);
    const part = hashedPart(text, this.kind, item);
    const holds = hashOf(text, part) === fields.hash;
    if (!holds) this.error("tampered", "content_modified");
    const rest = text.slice(header.at + fields.length, header.end);
    const end = commentOf(this.kind).end;
    if (rest !== end || text[header.end] !== "\n") this.error("tampered", "header_junk");
    if (part !== null && this.secondHeader(text, header, part)) this.error("tampered", "second_header");
    if (!claimed && isSuffixClaim(fields)) this.error("tampered", "newlines_changed");
    await this.fields(fields);
    if (part === null) return;
    if (isUncovered(text, header, part)) this.gap("partial", "uncovered", "warning");
    const script = this.kind === "python" || this.kind === "shell" || this.kind === "javascript";
    if (script && !text.startsWith("#!/")) {
      this.gap("partial", "shebang_uncovered", "warning");
    }
    if (holds && raw !== text && hashOf(raw, hashedPart(raw, this.kind, item)) !== fields.hash) {
      this.gap("tampered", "newlines_changed", "error");
    }
  }

  private itemOf(text: string, hash: string): Item {
    if (this.options.item !== undefined) return this.options.item;
    if (this.kind !== "markdown") return "tool";
    if (hashOf(text, knowledgePart(text)) === hash) return "knowledge";
    return directivePart(text) === null ? "knowledge" : "directive";
  }

  private secondHeader(text: string, header: Header, part: Range): boolean {
    for (let from = 0; from < text.length; ) {
      const inside = from >= part.from && from < part.to;
      if (from !== header.from && !inside && headerAt(text, from, this.kind) !== null) return true;
      const lf = text.indexOf("\n", from);
      if (lf < 0) break;
      from = lf + 1;
    }
    return false;
  }

  // ------------------------------------------------------------------------------------- step 7

  private keyFile(text: string, header: Header | null, claimed: boolean): void {
    if (this.b.length > MAX_KEY_FILE_BYTES) return;
    const toml = parseToml(text);
    const fingerprint = toml?.("fingerprint");
    const pemText = toml?.("public_key", "pem");
    if (fingerprint === undefined || pemText === undefined) return;
    const own = fingerprintOfPem(pemText);
    const stem = /(?:^|[./])([0-9a-f]{16})\.toml$/.exec(this.options.name ?? "")?.[1];
    if (fingerprint !== own || (stem !== undefined && stem !== own)) this.own("forged", "fingerprint_mismatch");
    const byItself = header === null || header.fields.fingerprint === own;
    const inTrust = knownKeys(this.options.trust).some((known) => ryeFingerprint(known) === own);
    if (byItself && !inTrust && !claimed) this.own("forged", "key_vouches_for_itself");
  }

  // ---------------------------------------------------------------------------- steps 6, 8 and 9

  private finish(): Report {
    const report = this.report;
    report.profile = this.counted;
    if (this.counted === "none" && !this.ownEvidence) report.downgrade("unsigned", "unsigned", "note");
    const passed = this.head();
    this.expectedThread();
    if (this.counted === "native" && this.seal !== null) {
      report.record = this.seal.seal.record;
      report.head = headText(this.seal);
    }
    report.completeness = passed && !isEvidence(report.verdict) ? "head" : "unproved";
    if (report.verdict === "verified" && !this.gaps) {
      report.trusted_until = { line: countLines(this.b), byte: this.b.length, turn: null };
    }
    report.stats.bytes = this.b.length;
    this.checks(passed);
    return report;
  }

  /** documents.md §8.2. A finding about the signer is of step 4, one of `GAPS` a gap. */
  private checks(passed: boolean): void {
    const { report, options } = this;
    const any = (codes: readonly string[]): boolean =>
      report.findings.some((one) => one.severity !== "note" && codes.includes(one.code));
    if (this.counted !== "none") {
      const newlines = !this.gaps && any(["newlines_changed"]);
      report.check("signature", any(SIGNATURE_CODES) || newlines ? "fail" : "pass");
      report.check("signer", any(SIGNER_CODES) ? "fail" : "pass");
      report.check("coverage", this.gaps ? (this.profile === "rye" ? "skipped" : "fail") : "pass");
    }
    report.check("head", options.head === undefined ? "skipped" : passed ? "pass" : "fail");
    if (options.thread === undefined) return;
    report.check("thread", this.format === "text" ? "skipped" : this.thread === options.thread ? "pass" : "fail");
  }

  /** Step 8: whether an expected head passed. */
  private head(): boolean {
    const text = this.options.head;
    if (text === undefined) return false;
    const tell = (verdict: Verdict, code: string): boolean => {
      this.error(verdict, code);
      return false;
    };
    if (this.seal === null) return tell("tampered", "seal_gone");
    const head = parseHead(text);
    if (head === null) throw new Error("the expected head is none");
    if (head.kind === "digest") return head.line === this.seal.content || tell("foreign", "other_head");
    const { seal } = this.seal;
    if (head.record !== seal.record) return tell("foreign", "other_record");
    if (seal.seq < head.seq) return tell("rolled_back", "older_than_head");
    const same = text === headText(this.seal);
    if (seal.seq === head.seq && !same) return tell("forked", "other_than_head");
    if (this.options.exact === true && !same) return tell("open", "head_not_last");
    return true;
  }

  private expectedThread(): void {
    const { thread } = this.options;
    if (thread === undefined) return;
    if (this.format === "text") this.error("foreign", "thread_unnamed");
    else if (this.thread !== thread) this.error("foreign", "other_thread");
  }
}

const SIGNER_CODES = ["unknown_signer", "key_out_of_scope", "key_expired", "key_end_doubted", "key_rotated", "other_signer", "key_revoked"];
const SIGNATURE_CODES = [
  "duplicate_key", "not_strict_json", "several_seals", "seal_not_last", "seal_unreadable", "other_kind", "seal_mismatch",
  "signature_not_text", "signature_unreadable", "impossible_time", "content_modified", "signature_encoding",
  "bad_signature", "signature_tail", "header_junk", "second_header",
];

function headText({ seal, content, size }: GoodSeal): string {
  return `${seal.record}:${seal.seq}:${size}:${content}`;
}

function claimBeside(file: Uint8Array): Claim {
  const text = file.length > MAX_BESIDE_BYTES ? "" : latin(file);
  const start = "threadseal:signed:";
  const seal = text.startsWith(start) && text.endsWith("\n") ? parseSeal(text.slice(start.length, -1)) : null;
  return seal === null ? NOT_ALLOWED : claim(seal, file.length - 1);
}

/** 64 bytes of base64url, with its padding or without any. */
export function ryeSignature(text: string): Uint8Array | null {
  if (text.length !== 86 && text.length !== 88) return null;
  const bytes = parseBase64Url(text);
  return bytes === null || bytes.length !== 64 ? null : bytes;
}

function isThreadJsonIncomplete(tree: JsonObject): boolean {
  const has = (name: string): boolean => memberOf(tree, name) !== null;
  if (!has("thread_id") || !(has("capabilities") || has("limits"))) return false;
  return !["directive", "status", "created_at", "updated_at"].every(has);
}

/** Whether bytes outside header line and hashed part are not blank. */
function isUncovered(text: string, header: Header, part: Range | null): boolean {
  const ranges = [{ from: header.from, to: Math.min(header.end + 1, text.length) }, ...(part === null ? [] : [part])];
  ranges.sort((x, y) => x.from - y.from);
  let at = 0;
  for (const range of [...ranges, { from: text.length, to: text.length }]) {
    if (range.from > at && /[^ \t\n\r]/.test(text.slice(at, range.from))) return true;
    at = Math.max(at, range.to);
  }
  return false;
}

/** A line that looks like a Rye header (documents.md §8.1, step 5). */
function looksSigned(raw: string): boolean {
  return /(?:^|\n)[\ufeff \t\r]*(?:<!--|#|\/\/)[ \t\r]*rye:signed:/.test(raw);
}

function countLines(b: Uint8Array): number {
  let n = 0;
  for (const byte of b) if (byte === 0x0a) n += 1;
  return b.length > 0 && b[b.length - 1] !== 0x0a ? n + 1 : n;
}

/** Rye's fingerprint of a PEM text, whatever text that is (keys-and-trust.md §1). */
function fingerprintOfPem(text: string): string {
  const plain = text.replace(/^[ \t\n\r]+|[ \t\n\r]+$/g, "");
  return hex(sha256(utf8(`${plain}\n`))).slice(0, 16);
}
