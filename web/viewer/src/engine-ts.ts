// The engine in TypeScript: the independent verifier of web/verifier, written from the specification alone.

import { NativeVerifier } from "../../verifier/src/native.js";
import { ObservedVerifier } from "../../verifier/src/observed.js";
import { checkObservedProof } from "../../verifier/src/observed-proof.js";
import { checkTurnProof } from "../../verifier/src/turn-proof.js";
import { verifyScroll } from "../../verifier/src/scroll.js";
import { verifyLedger } from "../../verifier/src/ledger.js";
import { verifyRye } from "../../verifier/src/rye.js";
import { kindOf, verifyBeside, verifyDocument } from "../../verifier/src/document.js";
import { parseHex } from "../../verifier/src/bytes.js";
import { parseHead } from "../../verifier/src/heads.js";
import type { Report as FullReport } from "../../verifier/src/report.js";
import { USAGES, type Trust, type TrustEntry, type Usage } from "../../verifier/src/trust.js";
import type { Asked, Engine, Report, Run, Trusted } from "./core.js";
import { type RecordKind, HEAD_BYTES, recognise } from "./recognise.js";

export const TYPESCRIPT: Engine = { name: "TypeScript", begin };

async function begin(asked: Asked): Promise<Run> {
  return new Recognising(asked);
}

/** Holds the first bytes until the kind is known. */
class Recognising implements Run {
  private held: Uint8Array[] = [];
  private length = 0;
  private run: Run | null = null;

  constructor(private readonly asked: Asked) {}

  async push(part: Uint8Array): Promise<void> {
    if (this.run !== null) return this.run.push(part);
    this.held.push(part);
    this.length += part.length;
    if (this.length >= HEAD_BYTES) await this.start();
  }

  async finish(): Promise<Report | null> {
    if (this.run === null) await this.start();
    return this.run!.finish();
  }

  private async start(): Promise<void> {
    const kind = recognise(joined(this.held), this.asked.name, this.asked.seals);
    this.run = runOf(kind, this.asked);
    for (const part of this.held) await this.run.push(part);
    this.held = [];
  }
}

function runOf(kind: RecordKind, asked: Asked): Run {
  if (kind === "native") return nativeRun(asked);
  if (kind === "observed") return observedRun(asked);
  return new Whole(kind, asked);
}

function nativeRun(asked: Asked): Run {
  const bodies = asked.bodies !== null ? partsOf(asked.bodies) : asked.bodiesUnread ? "unread" : "absent";
  const verifier = new NativeVerifier({ trust: trustOf(asked.trust), bodies, head: headOf(asked) });
  return {
    push: (part) => verifier.push(part),
    finish: async () => plain(await verifier.finish()),
  };
}

function observedRun(asked: Asked): Run {
  const queue = new PartQueue();
  const verifier = new ObservedVerifier({ trust: trustOf(asked.trust), head: headOf(asked) });
  const report = verifier.verify(queue, partsOf(asked.seals!));
  // A fault in the seals ends it before the log is read.
  report.then(() => queue.close(), () => queue.close());
  return {
    push: (part) => queue.push(part),
    finish: async () => {
      queue.close();
      return plain(await report);
    },
  };
}

/** Kinds that are judged whole. */
class Whole implements Run {
  private readonly parts: Uint8Array[] = [];

  constructor(private readonly kind: RecordKind, private readonly asked: Asked) {}

  async push(part: Uint8Array): Promise<void> {
    this.parts.push(part);
  }

  async finish(): Promise<Report> {
    const bytes = joined(this.parts);
    const trust = trustOf(this.asked.trust);
    const head = this.asked.head === null ? {} : { head: this.asked.head };
    switch (this.kind) {
      case "turn_proof":
        return plain(await checkTurnProof(bytes, { trust, thread: null, policy: null }));
      case "observed_proof":
        return plain(await checkObservedProof(bytes, trust));
      case "scroll":
        return plain(await verifyScroll(bytes, { trust, ...head }));
      case "ledger":
        return plain(await verifyLedger(bytes, { trust, ...head }));
      case "rye":
        return plain(await verifyRye(bytes, { trust, ...head }));
      case "document":
        return this.document(bytes, trust);
      default:
        return unsigned(bytes.length);
    }
  }

  private async document(bytes: Uint8Array, trust: Trust): Promise<Report> {
    const kind = kindOf(this.asked.name, bytes);
    if (kind === null) return unsigned(bytes.length);
    const options = { trust, name: this.asked.name };
    const seals = this.asked.seals;
    return plain(seals === null ? await verifyDocument(bytes, kind, options) : await verifyBeside(bytes, seals, kind, options));
  }
}

/** The report of a log beside which there are no seals. */
function unsigned(bytes: number): Report {
  return {
    format: "log", profile: "none", verdict: "unsigned", completeness: "unproved", trusted_until: null, record: null, head: null, signers: [],
    findings: [{ code: "unsigned", severity: "warning", line: null, bytes: null, turn: null }], checks: [], unauthenticated: [],
    stats: { bytes, events: 0, checkpoints: 0 },
  };
}

function plain(report: FullReport): Report {
  const turn = (value: number | bigint | null): number | null => (value === null ? null : Number(value));
  const until = report.trusted_until;
  return {
    format: report.format, profile: report.profile, verdict: report.verdict, completeness: report.completeness,
    trusted_until: until === null ? null : { ...until, turn: turn(until.turn) },
    record: report.record, head: report.head, signers: report.signers,
    findings: report.findings.map((one) => ({ ...one, turn: turn(one.turn) })),
    checks: report.checks, unauthenticated: report.unauthenticated, stats: report.stats,
  };
}

function headOf(asked: Asked): ReturnType<typeof parseHead> {
  if (asked.head === null) return null;
  const head = parseHead(asked.head);
  if (head === null) throw new Error("the known head cannot be read");
  return head;
}

export function trustOf(trusted: Trusted): Trust {
  const entries: TrustEntry[] = [];
  for (const one of trusted.keys) {
    const key = parseHex(one.public, 32);
    const usages = one.usages.filter((usage): usage is Usage => (USAGES as readonly string[]).includes(usage));
    if (key === null || usages.length === 0) continue;
    entries.push({
      name: one.name, key, usages,
      ...(one.threads === undefined ? {} : { threads: one.threads }),
      ...(one.notBefore === undefined ? {} : { notBefore: one.notBefore }),
      ...(one.notAfter === undefined ? {} : { notAfter: one.notAfter }),
      ...(one.revoked === undefined ? {} : { revoked: one.revoked }),
    });
  }
  return { entries, pins: [], now: Date.now() / 1000 };
}

async function* partsOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Parts that are pushed, as a stream. A push waits until the part before was taken. */
class PartQueue implements AsyncIterable<Uint8Array> {
  private part: Uint8Array | null = null;
  private closed = false;
  private wake: (() => void) | null = null;
  private room: (() => void) | null = null;

  async push(part: Uint8Array): Promise<void> {
    while (this.part !== null && !this.closed) await new Promise<void>((resolve) => (this.room = resolve));
    if (this.closed) return;
    this.part = part;
    this.wake?.();
  }

  close(): void {
    this.closed = true;
    this.wake?.();
    this.room?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const part = this.part;
      if (part !== null) {
        this.part = null;
        this.room?.();
        yield part;
      } else if (this.closed) return;
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }
}
