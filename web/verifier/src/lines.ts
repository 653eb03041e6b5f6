// Cutting a stream of bytes into lines at LF, in memory bounded by the longest line that is kept.

import { Sha256 } from "./sha256.js";
import { leafHasher } from "./merkle.js";

/** With its LF (transcript.md §1). */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;

const LF = 0x0a;

export interface CutLine {
  /** Without its LF; null where the line is longer than is kept. */
  readonly bytes: Uint8Array | null;
  /** Length without LF. */
  readonly length: number;
  /** `SHA-256(0x00 ‖ line)` of a line that is not kept. */
  readonly leaf: Uint8Array | null;
}

export class LineCutter {
  private held: Uint8Array[] = [];
  private length = 0;
  private long: Sha256 | null = null;

  /** `onLong` gets the bytes of lines that are not kept, in order, without LF. */
  constructor(
    private readonly max: number = MAX_LINE_BYTES,
    private readonly onLong: ((part: Uint8Array) => void) | null = null,
  ) {}

  /** The lines that end in this part. Their bytes are good until the next call. */
  *cut(part: Uint8Array): Generator<CutLine> {
    let from = 0;
    for (let end = part.indexOf(LF, from); end >= 0; end = part.indexOf(LF, from)) {
      yield this.end(part.subarray(from, end));
      from = end + 1;
    }
    if (from < part.length) this.hold(part.slice(from));
  }

  /** What follows the last LF, or null where nothing does. */
  rest(): CutLine | null {
    return this.length === 0 ? null : this.end(new Uint8Array(0));
  }

  private end(last: Uint8Array): CutLine {
    if (this.length === 0 && last.length < this.max) return { bytes: last, length: last.length, leaf: null };
    this.hold(last);
    const length = this.length;
    const leaf = this.long === null ? null : this.long.digest();
    const bytes = this.long === null ? joinParts(this.held, length) : null;
    this.held = [];
    this.length = 0;
    this.long = null;
    return { bytes, length, leaf };
  }

  private hold(part: Uint8Array): void {
    this.length += part.length;
    if (this.long === null) {
      this.held.push(part);
      if (this.length < this.max) return;
      this.long = leafHasher();
      for (const one of this.held) this.pass(one, this.long);
      this.held = [];
      return;
    }
    this.pass(part, this.long);
  }

  private pass(part: Uint8Array, leaf: Sha256): void {
    leaf.update(part);
    if (this.onLong !== null) this.onLong(part);
  }
}

function joinParts(parts: readonly Uint8Array[], length: number): Uint8Array {
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
