// Verification of ML-DSA-44 (FIPS 204), pure, with an empty context. Nothing here is secret.

import { concat, equal } from "./bytes.js";
import { Shake } from "./shake.js";

export const ML_DSA_KEY_BYTES = 1312;
export const ML_DSA_SIGNATURE_BYTES = 2420;

/** FIPS 204 §4, table 1: the parameters of ML-DSA-44. `ROWS` and `COLUMNS` are k and l. */
const Q = 8_380_417;
const N = 256;
const D = 13;
const TAU = 39;
const GAMMA_1 = 2 ** 17;
const GAMMA_2 = (Q - 1) / 88;
const ROWS = 4;
const COLUMNS = 4;
const BETA = 78;
const OMEGA = 80;

const SEED_BYTES = 32;
const CHALLENGE_BYTES = 32;
/** Of a polynomial of t1, 10 bits a coefficient, and of one of z, 18 bits. */
const T1_BITS = 10;
const Z_BITS = 18;
const T1_BYTES = (N * T1_BITS) / 8;
const Z_BYTES = (N * Z_BITS) / 8;
/** Of a coefficient of w1. */
const W1_BITS = 6;
const W1_VALUES = (Q - 1) / (2 * GAMMA_2);
/** The inverse of 256 mod q. */
const INVERSE_OF_N = 8_347_681;

/** 256 coefficients, each from 0 to q - 1. A product of two fits in a double. */
type Poly = Float64Array;

const ZETAS = zetas();

/** The powers 1753^brv(i) mod q. */
function zetas(): Float64Array {
  const powers = new Float64Array(N);
  powers[0] = 1;
  for (let i = 1; i < N; i++) powers[i] = (powers[i - 1]! * 1753) % Q;
  const reversed = (i: number): number => Number.parseInt(i.toString(2).padStart(8, "0").split("").reverse().join(""), 2);
  return powers.map((_, i) => powers[reversed(i)]!);
}

/** FIPS 204, algorithms 3 and 8: whether this is a signature of the message under the key. */
export function verifyMlDsa(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (key.length !== ML_DSA_KEY_BYTES || signature.length !== ML_DSA_SIGNATURE_BYTES) return false;
  const challenge = signature.subarray(0, CHALLENGE_BYTES);
  const z = polys(signature.subarray(CHALLENGE_BYTES), COLUMNS, Z_BYTES).map(zOf);
  const hints = hintsOf(signature.subarray(CHALLENGE_BYTES + COLUMNS * Z_BYTES));
  if (hints === null || z.some((poly) => poly.some((value) => Math.abs(value) >= GAMMA_1 - BETA))) return false;
  const seed = key.subarray(0, SEED_BYTES);
  const t1 = polys(key.subarray(SEED_BYTES), ROWS, T1_BYTES).map((bytes) => unpacked(bytes, T1_BITS));
  const commitment = commitmentOf(seed, t1, challenge, z, hints);
  const hashOfKey = Shake.of256(key).squeeze(64);
  const digest = Shake.of256(hashOfKey, PURE_WITHOUT_CONTEXT, message).squeeze(64);
  return equal(Shake.of256(digest, ...commitment).squeeze(CHALLENGE_BYTES), challenge);
}

/** Pure ML-DSA, and a context of no bytes. */
const PURE_WITHOUT_CONTEXT = Uint8Array.of(0, 0);

/** The packed rows of w1: the high bits of A·z - c·t1·2^d, corrected by the hints. */
function commitmentOf(
  seed: Uint8Array,
  t1: readonly Poly[],
  challenge: Uint8Array,
  z: readonly Poly[],
  hints: readonly Uint8Array[],
): Uint8Array[] {
  const c = transformed(ballOf(challenge));
  const columns = z.map((poly) => transformed(poly.map((value) => (value + Q) % Q)));
  return t1.map((high, row) => {
    const scaled = transformed(high.map((value) => (value * 2 ** D) % Q));
    const sum = scaled.map((value, i) => (Q - ((c[i]! * value) % Q)) % Q);
    columns.forEach((column, s) => {
      const entry = entryOf(seed, row, s);
      for (let i = 0; i < N; i++) sum[i] = (sum[i]! + entry[i]! * column[i]!) % Q;
    });
    const w = transformedBack(sum);
    return packed(w.map((value, i) => highBits(value, hints[row]![i] === 1)), W1_BITS);
  });
}

// ------------------------------------------------------------------------------- bytes to polynomials

function polys(bytes: Uint8Array, count: number, length: number): Uint8Array[] {
  return Array.from({ length: count }, (_, i) => bytes.subarray(i * length, (i + 1) * length));
}

/** Algorithm 18: coefficients of `bits` bits, the lowest first. */
function unpacked(bytes: Uint8Array, bits: number): Poly {
  const poly = new Float64Array(N);
  let held = 0;
  let heldBits = 0;
  let at = 0;
  for (let i = 0; i < N; i++) {
    for (; heldBits < bits; heldBits += 8) held |= bytes[at++]! << heldBits;
    poly[i] = held & (2 ** bits - 1);
    held >>>= bits;
    heldBits -= bits;
  }
  return poly;
}

function packed(poly: Poly, bits: number): Uint8Array {
  const bytes = new Uint8Array((N * bits) / 8);
  let held = 0;
  let heldBits = 0;
  let at = 0;
  for (const value of poly) {
    held |= value << heldBits;
    for (heldBits += bits; heldBits >= 8; heldBits -= 8) {
      bytes[at++] = held & 0xff;
      held >>>= 8;
    }
  }
  return bytes;
}

/** Algorithm 19: coefficients from -γ1 + 1 to γ1. */
function zOf(bytes: Uint8Array): Poly {
  return unpacked(bytes, Z_BITS).map((value) => GAMMA_1 - value);
}

/** Algorithm 21: of each row 256 bytes, 1 where there is a hint. Null for any spelling but the one. */
function hintsOf(bytes: Uint8Array): Uint8Array[] | null {
  const rows: Uint8Array[] = [];
  let at = 0;
  for (let row = 0; row < ROWS; row++) {
    const end = bytes[OMEGA + row]!;
    if (end < at || end > OMEGA) return null;
    const hints = new Uint8Array(N);
    for (const first = at; at < end; at++) {
      if (at > first && bytes[at - 1]! >= bytes[at]!) return null;
      hints[bytes[at]!] = 1;
    }
    rows.push(hints);
  }
  return bytes.subarray(at, OMEGA).every((byte) => byte === 0) ? rows : null;
}

/** Algorithm 29: τ coefficients are 1 or -1, the others 0. */
function ballOf(challenge: Uint8Array): Poly {
  const shake = Shake.of256(challenge);
  const signs = shake.squeeze(8);
  const poly = new Float64Array(N);
  for (let i = N - TAU; i < N; i++) {
    let j = shake.byte();
    while (j > i) j = shake.byte();
    const bit = i + TAU - N;
    poly[i] = poly[j]!;
    poly[j] = ((signs[bit >> 3]! >> (bit & 7)) & 1) === 1 ? Q - 1 : 1;
  }
  return poly;
}

/** Algorithms 30 and 32: one entry of the matrix A, transformed. */
function entryOf(seed: Uint8Array, row: number, column: number): Poly {
  const shake = Shake.of128(concat(seed, Uint8Array.of(column, row)));
  const poly = new Float64Array(N);
  for (let i = 0; i < N; ) {
    const value = shake.byte() | (shake.byte() << 8) | ((shake.byte() & 0x7f) << 16);
    if (value < Q) poly[i++] = value;
  }
  return poly;
}

// ------------------------------------------------------------------------------------- arithmetic

/** Algorithm 41. */
function transformed(poly: Poly): Poly {
  const w = poly.slice();
  let m = 0;
  for (let length = N / 2; length >= 1; length /= 2) {
    for (let start = 0; start < N; start += 2 * length) {
      const zeta = ZETAS[++m]!;
      for (let j = start; j < start + length; j++) {
        const t = (zeta * w[j + length]!) % Q;
        w[j + length] = (w[j]! - t + Q) % Q;
        w[j] = (w[j]! + t) % Q;
      }
    }
  }
  return w;
}

/** Algorithm 42. */
function transformedBack(poly: Poly): Poly {
  const w = poly.slice();
  let m = N;
  for (let length = 1; length < N; length *= 2) {
    for (let start = 0; start < N; start += 2 * length) {
      const zeta = Q - ZETAS[--m]!;
      for (let j = start; j < start + length; j++) {
        const t = w[j]!;
        w[j] = (t + w[j + length]!) % Q;
        w[j + length] = (zeta * ((t - w[j + length]! + Q) % Q)) % Q;
      }
    }
  }
  return w.map((value) => (value * INVERSE_OF_N) % Q);
}

/** Algorithms 36 and 40: the high bits of a coefficient, one more or less where there is a hint. */
function highBits(value: number, hint: boolean): number {
  let low = value % (2 * GAMMA_2);
  if (low > GAMMA_2) low -= 2 * GAMMA_2;
  const wraps = value - low === Q - 1;
  const high = wraps ? 0 : (value - low) / (2 * GAMMA_2);
  if (!hint) return high;
  const step = low - (wraps ? 1 : 0) > 0 ? 1 : -1;
  return (high + step + W1_VALUES) % W1_VALUES;
}
