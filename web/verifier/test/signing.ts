// Signing for tests, by WebCrypto, with keys whose seeds are public.

import { concat, parseHex, utf8 } from "../dist/bytes.js";
import { tagged } from "../dist/sha256.js";

export interface TestKey {
  readonly key: Uint8Array;
  sign(message: Uint8Array): Promise<Uint8Array>;
}

const PKCS8 = parseHex("302e020100300506032b657004220420", 16)!;

/** The key whose seed is 32 times this byte; `key` is its public half. */
export async function testKey(byte: number, key: string): Promise<TestKey> {
  const seed = new Uint8Array(32).fill(byte);
  const secret = await crypto.subtle.importKey("pkcs8", concat(PKCS8, seed) as BufferSource, "Ed25519", false, ["sign"]);
  return {
    key: parseHex(key, 32)!,
    sign: async (message) => new Uint8Array(await crypto.subtle.sign("Ed25519", secret, new Uint8Array(message))),
  };
}

export const FIRST = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
export const SECOND = "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394";

/** The tagged message of keys-and-trust.md §4. */
export function taggedMessage(tag: string, parts: readonly Uint8Array[]): Uint8Array {
  return concat(utf8("threadseal/1 signed digest\0"), tagged(tag, parts));
}
