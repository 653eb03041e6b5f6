// The equation of Ed25519 without cofactor (keys-and-trust.md §3, 4), in plain arithmetic. It is used where
// WebCrypto has no Ed25519, or solves another equation. It is slow, and nothing here is secret.

import { concat, equal, hex, parseHex } from "./bytes.js";

const P = (1n << 255n) - 19n;
const L = (1n << 252n) + 27742317777372353535851937790883648493n;
const D = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;

/** Extended coordinates: x = X/Z, y = Y/Z, xy = T/Z. */
interface Point {
  readonly x: bigint;
  readonly y: bigint;
  readonly z: bigint;
  readonly t: bigint;
}

const NEUTRAL: Point = { x: 0n, y: 1n, z: 1n, t: 0n };

/** Whether the encoding of S·B - k·A is R, byte for byte. Key, R and S have passed the other checks. */
export async function equationHolds(key: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
  const r = signature.subarray(0, 32);
  const a = decode(key);
  if (a === null) return false;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-512", new Uint8Array(concat(r, key, message))));
  const k = littleEndian(digest) % L;
  const s = littleEndian(signature.subarray(32));
  return equal(encode(sumOfProducts(s, base(), k, negative(a))), r);
}

function mod(value: bigint): bigint {
  const rest = value % P;
  return rest < 0n ? rest + P : rest;
}

function power(value: bigint, exponent: bigint): bigint {
  let result = 1n;
  let square = mod(value);
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if ((rest & 1n) === 1n) result = mod(result * square);
    square = mod(square * square);
  }
  return result;
}

function littleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${hex(bytes.slice().reverse())}`);
}

/** The point of an encoding (RFC 8032 §5.1.3), or null. */
function decode(bytes: Uint8Array): Point | null {
  const plain = bytes.slice();
  const sign = (plain[31] ?? 0) >> 7;
  plain[31] = (plain[31] ?? 0) & 0x7f;
  const y = littleEndian(plain);
  if (y >= P) return null;
  const u = mod(y * y - 1n);
  const v = mod(D * y * y + 1n);
  let x = mod(u * v ** 3n * power(u * v ** 7n, (P - 5n) / 8n));
  if (mod(v * x * x) === mod(-u)) x = mod(x * power(2n, (P - 1n) / 4n));
  if (mod(v * x * x) !== u || (x === 0n && sign === 1)) return null;
  if (Number(x & 1n) !== sign) x = P - x;
  return { x, y, z: 1n, t: mod(x * y) };
}

function encode(point: Point): Uint8Array {
  const inverse = power(point.z, P - 2n);
  const x = mod(point.x * inverse);
  const text = mod(point.y * inverse).toString(16).padStart(64, "0");
  const bytes = parseHex(text, 32)!.reverse();
  bytes[31] = (bytes[31] ?? 0) | (Number(x & 1n) << 7);
  return bytes;
}

let basePoint: Point | null = null;

function base(): Point {
  const encoding = new Uint8Array(32).fill(0x66);
  encoding[0] = 0x58;
  basePoint ??= decode(encoding);
  return basePoint!;
}

function negative(point: Point): Point {
  return { ...point, x: mod(-point.x), t: mod(-point.t) };
}

/** RFC 8032 §5.1.4; complete, so it doubles, too. */
function add(p: Point, q: Point): Point {
  const a = mod((p.y - p.x) * (q.y - q.x));
  const b = mod((p.y + p.x) * (q.y + q.x));
  const c = mod(2n * D * p.t * q.t);
  const d = mod(2n * p.z * q.z);
  const e = b - a;
  const f = d - c;
  const g = d + c;
  const h = b + a;
  return { x: mod(e * f), y: mod(g * h), z: mod(f * g), t: mod(e * h) };
}

function sumOfProducts(s: bigint, p: Point, k: bigint, q: Point): Point {
  const both = add(p, q);
  let sum = NEUTRAL;
  for (let bit = 252n; bit >= 0n; bit--) {
    sum = add(sum, sum);
    const inS = ((s >> bit) & 1n) === 1n;
    const inK = ((k >> bit) & 1n) === 1n;
    if (inS || inK) sum = add(sum, inS && inK ? both : inS ? p : q);
  }
  return sum;
}
