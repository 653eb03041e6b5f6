// One question of the protocol of cli/answer.ts, as a kind gets it.

import type { Trust } from "../trust.js";

export interface Question {
  readonly kind: string;
  /** Whole files, by role. A kind that reads streams gets none here. */
  readonly files: Readonly<Record<string, Uint8Array>>;
  /** The parts of a file, or null where the question has none of this role. */
  readonly open: (role: string) => AsyncIterable<Uint8Array> | null;
  readonly name: string | null;
  readonly trust: Trust;
  readonly thread: string | null;
  readonly head: string | null;
  readonly exact: boolean;
  readonly length: number | null;
  /** Nanoseconds since 1970. */
  readonly oldest: bigint | null;
  readonly strictDigits: boolean;
  readonly profile: string | null;
  readonly item: string | null;
  /** Verifier keys of C2SP signed-note. */
  readonly keys: readonly string[];
}

/** The answer about a part of a log, which has no report. */
export interface Short {
  readonly answer: string;
  readonly signers?: readonly string[];
  readonly at?: string;
  readonly size?: string;
}

/** Thrown by a kind for a question that it does not support. */
export class Unsupported extends Error {}
