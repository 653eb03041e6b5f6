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
}

/** Thrown by a kind for a question that it does not support. */
export class Unsupported extends Error {}
