// Public keys and signatures (keys-and-trust.md §1, §3). WebCrypto solves the equation where it
// solves the right one; the checks that it may leave out are here.

import { base64, concat, equal, hex, parseHex, utf8 } from "./bytes.js";
import { equationHolds } from "./ed25519-plain.js";
import { sha256 } from "./sha256.js";

export const KEY_BYTES = 32;
export const SIGNATURE_BYTES = 64;

const P = (1n << 255n) - 19n;
const L = (1n << 252n) + 27742317777372353535851937790883648493n;
const D = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;

/** The encodings of points whose order divides 8, without the highest bit of the last byte. */
const SMALL_ORDER = [
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
].map(known);

const PEM_PREFIX = known("302a300506032b6570032100");

/** Whether 32 bytes are a public key: §1, checks 1 to 3. */
export function isPublicKey(key: Uint8Array): boolean {
  if (key.length !== KEY_BYTES) return false;
  const name = hex(key);
  const before = JUDGED.get(name);
  if (before !== undefined) return before;
  const good = isPoint(key);
  if (JUDGED.size >= MAX_JUDGED) JUDGED.clear();
  JUDGED.set(name, good);
  return good;
}

/** Whether the signature over the message holds under the key: §3. */
export async function verify(key: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
  if (signature.length !== SIGNATURE_BYTES || !isPublicKey(key)) return false;
  const r = signature.subarray(0, 32);
  if (isSmallOrder(r) || yOf(r) >= P || littleEndian(signature.subarray(32)) >= L) return false;
  return (await webCryptoFits()) ? verifyByWebCrypto(key, message, signature) : equationHolds(key, message, signature);
}

async function verifyByWebCrypto(key: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
  const imported = await importKey(key);
  return crypto.subtle.verify("Ed25519", imported, new Uint8Array(signature), new Uint8Array(message));
}

// Two signatures over one message: a good one, and one whose R has a part of order 8, for which only the
// equation with cofactor holds.
const PROBE_KEY = known("8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c");
const PROBE_MESSAGE = known("7468726561647365616c");
const PROBE_GOOD = known("296ce17d0519d59b62a1de8b64c788b6ba305dfec99bb38171de0e0b6561ba591d8c92908da2fc5a4641245d9068e01e7e453fcaf73e0e9614e2115491c37e01");
const PROBE_COFACTOR = known("d0424b701d60255de5df705071059ccd22b8349bb4138202ebbd65e9e0ad211be412f606f2862ecefd6ae057fe6db99e83e4a93e491b1c330e1104d26b022201");

let fits: Promise<boolean> | null = null;

/** Whether WebCrypto has Ed25519 and solves the equation without cofactor. */
function webCryptoFits(): Promise<boolean> {
  fits ??= (async () => {
    try {
      return (await verifyByWebCrypto(PROBE_KEY, PROBE_MESSAGE, PROBE_GOOD))
        && !(await verifyByWebCrypto(PROBE_KEY, PROBE_MESSAGE, PROBE_COFACTOR));
    } catch {
      return false;
    }
  })();
  return fits;
}

/** The key id: SHA-256 of the key. */
export function keyId(key: Uint8Array): Uint8Array {
  return sha256(key);
}

/** Rye's fingerprint: 16 hex digits of the SHA-256 of the PEM file (§1, "Names"). */
export function ryeFingerprint(key: Uint8Array): string {
  return hex(sha256(utf8(pem(key)))).slice(0, 16);
}

/** The PEM file of a public key. */
export function pem(key: Uint8Array): string {
  return `-----BEGIN PUBLIC KEY-----\n${base64(concat(PEM_PREFIX, key))}\n-----END PUBLIC KEY-----\n`;
}

/** The key as did:key (§1). */
export function didKey(key: Uint8Array): string {
  return `did:key:z${base58(concat(Uint8Array.of(0xed, 0x01), key))}`;
}

const BASE58_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** Base58btc of bytes that do not begin with zero. */
function base58(bytes: Uint8Array): string {
  let value = BigInt(`0x${hex(bytes)}`);
  let text = "";
  for (; value > 0n; value /= 58n) text = BASE58_DIGITS.charAt(Number(value % 58n)) + text;
  return text;
}

const MAX_JUDGED = 4096;
const JUDGED = new Map<string, boolean>();
const IMPORTED = new Map<string, Promise<CryptoKey>>();

function importKey(key: Uint8Array): Promise<CryptoKey> {
  const name = hex(key);
  const before = IMPORTED.get(name);
  if (before !== undefined) return before;
  if (IMPORTED.size >= MAX_JUDGED) IMPORTED.clear();
  const imported = crypto.subtle.importKey("raw", new Uint8Array(key), "Ed25519", false, ["verify"]);
  IMPORTED.set(name, imported);
  return imported;
}

function known(text: string): Uint8Array {
  const bytes = parseHex(text, text.length / 2);
  if (bytes === null) throw new Error("a constant that is no hex");
  return bytes;
}

function littleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${hex(bytes.slice().reverse())}`);
}

function withoutSign(bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice();
  copy[31] = (copy[31] ?? 0) & 0x7f;
  return copy;
}

function yOf(point: Uint8Array): bigint {
  return littleEndian(withoutSign(point));
}

function isSmallOrder(point: Uint8Array): boolean {
  const plain = withoutSign(point);
  return SMALL_ORDER.some((one) => equal(one, plain));
}

function isPoint(key: Uint8Array): boolean {
  const y = yOf(key);
  if (y >= P || isSmallOrder(key)) return false;
  const u = modP(y * y - 1n);
  const v = modP(D * y * y + 1n);
  return powP(modP(u * v), (P - 1n) / 2n) === 1n;
}

function modP(value: bigint): bigint {
  const rest = value % P;
  return rest < 0n ? rest + P : rest;
}

function powP(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  let square = base;
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if ((rest & 1n) === 1n) result = (result * square) % P;
    square = (square * square) % P;
  }
  return result;
}
