// Makes native records for tests, by the rules for writers of transcript.md. Keys are from seeds.

import { ascii, base64, base64Url, concat, hex, parseHex, utf8 } from "../dist/bytes.js";
import { nativeString } from "../dist/canon.js";
import { keyId, ryeFingerprint } from "../dist/ed25519.js";
import { Frontier, leafHash } from "../dist/merkle.js";
import { taggedMessage } from "../dist/native-lines.js";
import { noteKeyId } from "../dist/note.js";
import { Sha256, sha256, tagged } from "../dist/sha256.js";

export interface Key {
  readonly raw: Uint8Array;
  readonly hex: string;
  readonly id: string;
  readonly sign: (message: Uint8Array) => Promise<Uint8Array>;
}

/** The key whose seed is 32 times this byte. */
export async function keyOf(byte: number): Promise<Key> {
  const seed = new Uint8Array(32).fill(byte);
  const der = concat(parseHex("302e020100300506032b657004220420", 16)!, seed);
  const key = await crypto.subtle.importKey("pkcs8", new Uint8Array(der), "Ed25519", true, ["sign"]);
  const jwk = (await crypto.subtle.exportKey("jwk", key)) as { x?: string };
  const raw = fromUrl(jwk.x ?? "");
  const sign = async (message: Uint8Array): Promise<Uint8Array> =>
    new Uint8Array(await crypto.subtle.sign("Ed25519", key, new Uint8Array(message)));
  return { raw, hex: hex(raw), id: hex(keyId(raw)), sign };
}

function fromUrl(text: string): Uint8Array {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  let bits = 0n;
  for (const digit of text) bits = bits * 64n + BigInt(digits.indexOf(digit));
  const extra = BigInt((text.length * 6) % 8);
  return parseHex((bits >> extra).toString(16).padStart(64, "0"), 32)!;
}

export interface MakerOptions {
  readonly authority: Key;
  readonly key: Key;
  readonly rye: Key;
  readonly detached?: boolean;
}

export interface SealOptions {
  readonly final?: boolean;
  readonly ext?: string;
  readonly turn?: number;
  /** The note's signature is of another text. */
  readonly wrong?: boolean;
}

const THREAD = "demo/1";

export class Maker {
  private readonly parts: Uint8Array[] = [];
  private readonly tree = new Frontier();
  private readonly prefix = new Sha256();
  private number = 0;
  private seq = 0;
  private turn = 0;
  private prev: string | null = null;
  size = 0;
  /** End of the last seal, and number of lines there. */
  sealEnd = 0;
  private sealLines = 0;
  origin = "";
  readonly record = new Uint8Array(32).fill(7);
  bodies = "";

  constructor(private readonly options: MakerOptions) {}

  bytes(): Uint8Array {
    return concat(...this.parts);
  }

  get head(): string {
    return `${hex(this.record)}:${this.seq - 1}:${this.sealEnd}:${this.prev ?? ""}`;
  }

  async begin(): Promise<this> {
    const { authority, key, rye } = this.options;
    const members = (delegation: string): string => `{"format":"threadseal/1","record":"${hex(this.record)}",`
      + `"authority":"${authority.hex}","key":"${key.hex}","delegation":${delegation},"rye_key":"${rye.hex}",`
      + `"directive":null,"model":null,"capabilities":[],"limits":{"b":1.50,"a":[]},`
      + `"bodies":"${this.options.detached === true ? "detached" : "inline"}","anchors":[],"predecessor":null,`
      + `"parent":null,"workspace":null,"meta":{}}`;
    let delegation = "null";
    if (authority.hex !== key.hex) {
      const text = members("null").replace('{"b":1.50,"a":[]}', '{"a":[],"b":1.5}');
      delegation = `"${base64(await authority.sign(taggedMessage("threadseal/1 first key", [THREAD, text])))}"`;
    }
    const line = this.frame("thread_started", members(delegation));
    this.origin = `threadseal/1/transcript/${hex(sha256(utf8(line)))}`;
    this.append(utf8(line));
    return this.seal(key);
  }

  private frame(type: string, payload: string): string {
    const number = ++this.number;
    const time = `1771356405.${String(number % 1_000_000).padStart(6, "0")}`;
    const salt = number.toString(16).padStart(32, "0");
    return `{"timestamp":${time},"thread_id":"${THREAD}","event_type":"${type}","salt":"${salt}","payload":${payload}}`;
  }

  append(line: Uint8Array): this {
    const whole = concat(line, Uint8Array.of(0x0a));
    this.parts.push(whole);
    this.tree.push(leafHash(line));
    this.prefix.update(whole);
    this.size += whole.length;
    return this;
  }

  event(type: string, payload = "{}"): this {
    return this.append(utf8(this.frame(type, payload)));
  }

  /** Bytes at the end, without a line. */
  raw(text: string): this {
    this.parts.push(utf8(text));
    this.size += text.length;
    return this;
  }

  keyEvent(next: Key): this {
    return this.event("key", `{"next":"${next.hex}"}`);
  }

  async delegation(authority: Key, key: Key): Promise<this> {
    const signature = await authority.sign(taggedMessage("threadseal/1 delegation", [this.origin, key.raw]));
    return this.event("delegation", `{"key":"${key.hex}","signature":"${base64(signature)}"}`);
  }

  async authorityEvent(before: Key, next: Key): Promise<this> {
    const signature = await before.sign(taggedMessage("threadseal/1 key event", ["rotate", before.raw, next.raw]));
    return this.event("authority", `{"next":"${next.hex}","signature":"${base64(signature)}"}`);
  }

  /** States that all lines since the last seal were adopted. */
  adopt(): this {
    const found = this.bytes().subarray(this.sealEnd);
    const lines = this.tree.size - this.sealLines;
    return this.event("tail_adopted", `{"from":${this.sealEnd},"to":${this.size},"lines":${lines},"sha256":"${hex(sha256(found))}"}`);
  }

  drop(): this {
    return this.event("tail_dropped", `{"offset":${this.size},"length":5,"sha256":"${"0".repeat(64)}"}`);
  }

  /** A commitment to a body, whose line is added to the file of bodies. */
  body(text: string): string {
    const salt = sha256(utf8(`salt ${text} ${this.number}`));
    const digest = hex(tagged("threadseal/1 body", [this.record, salt, text]));
    if (this.bodies === "") this.bodies = `{"format":"threadseal-bodies/1","record":"${hex(this.record)}"}\n`;
    this.bodies += `{"commitment":"${digest}","salt":"${hex(salt)}","body":${text}}\n`;
    const kind = text.startsWith("{") ? "object" : text.startsWith("[") ? "array" : "string";
    return `{"$body":{"commitment":"${digest}","bytes":${text.length},"kind":"${kind}"}}`;
  }

  redaction(commitment: string, key: Key): this {
    const digest = /"commitment":"([0-9a-f]{64})"/.exec(commitment)![1]!;
    return this.event("redacted", `{"commitments":["${digest}"],"key":"${key.id}","by":"Ada","why":${nativeString("a caf\u00e9")}}`);
  }

  async seal(by: Key, options: SealOptions = {}): Promise<this> {
    const { rye } = this.options;
    this.turn = options.turn ?? this.turn;
    const hash = hex(this.prefix.digest());
    const sig = base64Url(await rye.sign(utf8(hash)));
    const root = this.tree.root();
    const prev = this.prev === null ? "null" : `"${this.prev}"`;
    const lines = this.tree.size;
    const payload = `{"turn":${this.turn},"byte_offset":${this.size},"hash":"${hash}","sig":"${sig}",`
      + `"fp":"${ryeFingerprint(rye.raw)}","ts":"2026-02-17T19:26:45Z","seal":{"seq":${this.seq},"lines":${lines},`
      + `"root":"${hex(root)}","prev":${prev},"final":${options.final === true},"key":"${by.id}",`
      + `"ext":${options.ext ?? "{}"},"note":"`;
    const start = this.frame("checkpoint", payload).slice(0, -1);
    const digest = hex(tagged("threadseal/1 checkpoint line", [start]));
    const text = `${this.origin}\n${lines}\n${base64(root)}\nline ${digest}\n`;
    const signature = concat(noteKeyId(this.origin, by.raw), await by.sign(utf8(options.wrong === true ? "" : text)));
    const note = `${text}\n\u2014 ${this.origin} ${base64(signature)}\n`;
    const line = utf8(`${start}${nativeString(note).slice(1)}}}}`);
    this.append(line);
    this.seq++;
    this.prev = hex(sha256(line));
    this.sealEnd = this.size;
    this.sealLines = this.tree.size;
    return this;
  }
}

export function textOfBytes(bytes: Uint8Array): string {
  return ascii(bytes);
}
