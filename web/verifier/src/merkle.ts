// Merkle trees of RFC 6962 over SHA-256, and their proofs (keys-and-trust.md §5).

import { equal } from "./bytes.js";
import { Sha256, sha256 } from "./sha256.js";

export const MAX_PROOF_HASHES = 63;
export const MAX_RANGE_PROOF_HASHES = 126;

const LEAF_PREFIX = Uint8Array.of(0);
const NODE_PREFIX = Uint8Array.of(1);

export function leafHash(data: Uint8Array): Uint8Array {
  return sha256(LEAF_PREFIX, data);
}

/** A hash of a leaf whose bytes come in parts. */
export function leafHasher(): Sha256 {
  return new Sha256().update(LEAF_PREFIX);
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  return sha256(NODE_PREFIX, left, right);
}

/** The root of the empty tree. */
export function emptyRoot(): Uint8Array {
  return sha256(new Uint8Array(0));
}

/** A growing tree: the roots of its complete subtrees, the largest first. */
export class Frontier {
  size = 0;
  private readonly subtrees: { hash: Uint8Array; leaves: number }[] = [];

  push(leaf: Uint8Array): void {
    let hash = leaf;
    let leaves = 1;
    for (let last = this.subtrees.at(-1); last !== undefined && last.leaves === leaves; last = this.subtrees.at(-1)) {
      hash = nodeHash(last.hash, hash);
      leaves *= 2;
      this.subtrees.pop();
    }
    this.subtrees.push({ hash, leaves });
    this.size++;
  }

  root(): Uint8Array {
    let root: Uint8Array | null = null;
    for (let i = this.subtrees.length - 1; i >= 0; i--) {
      const hash = this.subtrees[i]!.hash;
      root = root === null ? hash : nodeHash(hash, root);
    }
    return root ?? emptyRoot();
  }
}

/** The root of a list of leaf hashes. */
export function rootOf(leaves: Iterable<Uint8Array>): Uint8Array {
  const tree = new Frontier();
  for (const leaf of leaves) tree.push(leaf);
  return tree.root();
}

/** RFC 9162 §2.1.3.2, or null where the proof fails. Sizes are below 2^63. */
export function rootByInclusion(
  leaf: Uint8Array,
  index: bigint,
  size: bigint,
  proof: readonly Uint8Array[],
): Uint8Array | null {
  if (index >= size || proof.length > MAX_PROOF_HASHES) return null;
  let at = index;
  let last = size - 1n;
  let root = leaf;
  for (const hash of proof) {
    if (last === 0n) return null;
    if ((at & 1n) === 1n || at === last) {
      root = nodeHash(hash, root);
      while ((at & 1n) === 0n) {
        at >>= 1n;
        last >>= 1n;
      }
    } else {
      root = nodeHash(root, hash);
    }
    at >>= 1n;
    last >>= 1n;
  }
  return last === 0n ? root : null;
}

export interface TreeHead {
  readonly size: bigint;
  readonly root: Uint8Array;
}

/** RFC 9162 §2.1.4.2: whether the tree `next` begins with all leaves of the tree `old`. */
export function checkConsistency(old: TreeHead, next: TreeHead, proof: readonly Uint8Array[]): boolean {
  if (proof.length > MAX_PROOF_HASHES || old.size > next.size) return false;
  if (next.size === 0n && !equal(next.root, emptyRoot())) return false;
  if (old.size === 0n) return proof.length === 0 && equal(old.root, emptyRoot());
  if (old.size === next.size) return proof.length === 0 && equal(old.root, next.root);
  const path = (old.size & (old.size - 1n)) === 0n ? [old.root, ...proof] : [...proof];
  const first = path.shift();
  if (first === undefined) return false;
  let at = old.size - 1n;
  let last = next.size - 1n;
  while ((at & 1n) === 1n) {
    at >>= 1n;
    last >>= 1n;
  }
  let a = first;
  let b = first;
  for (const hash of path) {
    if (last === 0n) return false;
    if ((at & 1n) === 1n || at === last) {
      a = nodeHash(hash, a);
      b = nodeHash(hash, b);
      while ((at & 1n) === 0n && at !== 0n) {
        at >>= 1n;
        last >>= 1n;
      }
    } else {
      b = nodeHash(b, hash);
    }
    at >>= 1n;
    last >>= 1n;
  }
  return last === 0n && equal(a, old.root) && equal(b, next.root);
}

/** `split(n)`: the largest power of two below n, for n of 2 or more. */
export function split(n: bigint): bigint {
  return 1n << BigInt((n - 1n).toString(2).length - 1);
}

/** The root by a range proof, or null where it fails: `leaves` begin at number `from` of `size`. */
export function rootByRange(
  leaves: readonly Uint8Array[],
  from: bigint,
  size: bigint,
  proof: readonly Uint8Array[],
): Uint8Array | null {
  const to = from + BigInt(leaves.length);
  if (leaves.length === 0 || to > size || proof.length > MAX_RANGE_PROOF_HASHES) return null;
  let nextHash = 0;
  let nextLeaf = 0;
  const fold = (begin: bigint, end: bigint): Uint8Array | null => {
    if (end <= from || to <= begin) return proof[nextHash++] ?? null;
    if (end - begin === 1n) return leaves[nextLeaf++] ?? null;
    const middle = begin + split(end - begin);
    const left = fold(begin, middle);
    const right = left === null ? null : fold(middle, end);
    return left === null || right === null ? null : nodeHash(left, right);
  };
  const root = fold(0n, size);
  return root !== null && nextHash === proof.length ? root : null;
}

/** The numbers of leaves that a range proof shows as hashes of their own, from left to right. */
export function lonelyLeaves(from: bigint, count: bigint, size: bigint): bigint[] {
  const to = from + count;
  const found: bigint[] = [];
  const walk = (begin: bigint, end: bigint): void => {
    if (end <= from || to <= begin) {
      if (end - begin === 1n) found.push(begin);
      return;
    }
    if (end - begin === 1n || (from <= begin && end <= to)) return;
    const middle = begin + split(end - begin);
    walk(begin, middle);
    walk(middle, end);
  };
  walk(0n, size);
  return found;
}

