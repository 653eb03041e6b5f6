// SHA-256 (FIPS 180-4), incremental, and `tagged` (keys-and-trust.md §4).

import { utf8 } from "./bytes.js";

const BLOCK_BYTES = 64;

const K = new Int32Array([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]);

const INITIAL = new Int32Array([
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
]);

// The schedule of one block. Blocks are worked on one after the other, so that all hashes share it.
const W = new Int32Array(64);

/** A SHA-256 over bytes that come in parts. */
export class Sha256 {
  private readonly state = new Int32Array(INITIAL);
  private readonly held = new Uint8Array(BLOCK_BYTES);
  private heldBytes = 0;
  private length = 0;

  update(bytes: Uint8Array): this {
    const held = this.held;
    let at = 0;
    this.length += bytes.length;
    if (this.heldBytes > 0) {
      while (at < bytes.length && this.heldBytes < BLOCK_BYTES) held[this.heldBytes++] = bytes[at++]!;
      if (this.heldBytes < BLOCK_BYTES) return this;
      compress(this.state, held, 0);
      this.heldBytes = 0;
    }
    for (; at + BLOCK_BYTES <= bytes.length; at += BLOCK_BYTES) compress(this.state, bytes, at);
    while (at < bytes.length) held[this.heldBytes++] = bytes[at++]!;
    return this;
  }

  /** The digest of all bytes so far. More bytes may follow. */
  digest(): Uint8Array {
    SCRATCH.set(this.state);
    return finished(SCRATCH, this.held, this.heldBytes, this.length);
  }

  /** Forgets all bytes. */
  reset(): this {
    this.state.set(INITIAL);
    this.heldBytes = 0;
    this.length = 0;
    return this;
  }

  clone(): Sha256 {
    const copy = new Sha256();
    copy.state.set(this.state);
    copy.held.set(this.held);
    copy.heldBytes = this.heldBytes;
    copy.length = this.length;
    return copy;
  }
}

/** The SHA-256 of the parts, one after the other. */
export function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  ONCE.reset();
  for (const part of parts) ONCE.update(part);
  return ONCE.digest();
}

const MAX_HELD_BYTES = 1 << 20;

/** A SHA-256 that is rarely asked for: up to 1 MiB is held, and hashed only then. */
export class LateSha256 {
  private readonly hash = new Sha256();
  private readonly held = new Uint8Array(MAX_HELD_BYTES);
  private heldBytes = 0;

  update(bytes: Uint8Array): this {
    if (this.heldBytes + bytes.length > MAX_HELD_BYTES) this.settle();
    if (bytes.length > MAX_HELD_BYTES) {
      this.hash.update(bytes);
    } else {
      this.held.set(bytes, this.heldBytes);
      this.heldBytes += bytes.length;
    }
    return this;
  }

  /** The digest of all bytes so far, with these behind them. */
  digestWith(last: Uint8Array): Uint8Array {
    this.settle();
    return this.hash.clone().update(last).digest();
  }

  reset(): this {
    this.hash.reset();
    this.heldBytes = 0;
    return this;
  }

  private settle(): void {
    this.hash.update(this.held.subarray(0, this.heldBytes));
    this.heldBytes = 0;
  }
}

// For digests of bytes that are all there. Nothing interrupts them, so that all share it.
const SCRATCH = new Int32Array(8);
const END = new Uint8Array(2 * BLOCK_BYTES);
const END_VIEW = new DataView(END.buffer);
const ONCE = new Sha256();

/** The digest, from the state after all whole blocks and the bytes behind them. The state is used up. */
function finished(state: Int32Array, held: Uint8Array, heldBytes: number, length: number): Uint8Array {
  const bytes = heldBytes < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES;
  for (let i = 0; i < heldBytes; i++) END[i] = held[i]!;
  END[heldBytes] = 0x80;
  END.fill(0, heldBytes + 1, bytes - 8);
  END_VIEW.setUint32(bytes - 8, Math.floor(length / 0x2000_0000));
  END_VIEW.setUint32(bytes - 4, (length * 8) % 0x1_0000_0000);
  for (let at = 0; at < bytes; at += BLOCK_BYTES) compress(state, END, at);
  const digest = new Uint8Array(32);
  for (let i = 0; i < 8; i++) {
    const word = state[i]!;
    digest[4 * i] = word >>> 24;
    digest[4 * i + 1] = word >>> 16;
    digest[4 * i + 2] = word >>> 8;
    digest[4 * i + 3] = word;
  }
  return digest;
}

const TAGGED_PREFIX = utf8("threadseal/1\0");

/** `tagged(tag, parts)` of keys-and-trust.md §4. A text stands for its UTF-8. */
export function tagged(tag: string, parts: readonly (Uint8Array | string)[]): Uint8Array {
  const hash = new Sha256().update(TAGGED_PREFIX);
  for (const part of [tag, ...parts]) {
    const bytes = typeof part === "string" ? utf8(part) : part;
    hash.update(u64be(bytes.length)).update(bytes);
  }
  return hash.digest();
}

/** Eight bytes, big-endian, of a number below 2^53. */
export function u64be(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, Math.floor(value / 0x1_0000_0000));
  view.setUint32(4, value % 0x1_0000_0000);
  return bytes;
}

function compress(state: Int32Array, bytes: Uint8Array, from: number): void {
  const w = W;
  for (let i = 0, at = from; i < 16; i++, at += 4) {
    w[i] = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
  }
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15]!;
    const y = w[i - 2]!;
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0;
  }
  let a = state[0]!, b = state[1]!, c = state[2]!, d = state[3]!;
  let e = state[4]!, f = state[5]!, g = state[6]!, h = state[7]!;
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i]! + w[i]!) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] = (state[0]! + a) | 0;
  state[1] = (state[1]! + b) | 0;
  state[2] = (state[2]! + c) | 0;
  state[3] = (state[3]! + d) | 0;
  state[4] = (state[4]! + e) | 0;
  state[5] = (state[5]! + f) | 0;
  state[6] = (state[6]! + g) | 0;
  state[7] = (state[7]! + h) | 0;
}
