// Verifying a native record (transcript.md §4, §6, §7): both looks of §7 in one pass over the lines. Each
// signature is checked as it comes; at the first that does not verify the result of the second look is kept,
// in which it is the failure, and the first look goes on. Lines and payloads are read in native-lines.ts, keys
// followed in native-keys.ts, order decided in native-order.ts, bodies judged in bodies.ts.

import { equal, hex } from "./bytes.js";
import { type BodiesSource, type Committed, judgeBodies } from "./bodies.js";
import { ryeFingerprint } from "./ed25519.js";
import { type ExpectedHead, HeadWatch } from "./heads.js";
import { LineCutter, type CutLine, MAX_LINE_BYTES } from "./lines.js";
import { Frontier, leafHash } from "./merkle.js";
import { RecordKeys, type SealingKey, rawKey } from "./native-keys.js";
import {
  type Checkpoint, type EventKind, type Manifest, type NativeLine, type Redaction, MAX_ADOPTED_TAILS, MAX_RECORD_BODIES,
  MAX_RECORD_KEYS, commitmentsOf, delegatesTo, delegationHolds, headText, isThreadPath, mayCommit, noteHolds,
  parseAuthority, parseCheckpoint, parseDelegation, parseKeyEvent, parseManifest, parseNativeLine, parseRedaction,
  parseTailAdopted, parseTailDropped, payloadText, rotatesTo, sigHolds,
} from "./native-lines.js";
import { type State, faultOfEvent, sealMayStand } from "./native-order.js";
import { type Place, Report, type Verdict, isEvidence } from "./report.js";
import { LateSha256, Sha256 } from "./sha256.js";
import { type Sealer, type Trust, judgeSealers } from "./trust.js";

export interface NativeOptions {
  readonly trust: Trust;
  readonly bodies: BodiesSource;
  /** The thread that is asked for. */
  readonly thread?: string | null;
  readonly head?: ExpectedHead | null;
  /** Whether the expected head must be the last. */
  readonly exact?: boolean;
}

/** How many of the findings for adopted and for dropped tails are kept (§7 D 7). */
const MAX_TAIL_FINDINGS = 64;

const LF = Uint8Array.of(0x0a);
const NOTHING = new Uint8Array(0);

interface Fault {
  readonly code: string;
  readonly place: Partial<Place>;
}

interface Seal {
  readonly seq: bigint;
  readonly size: number;
  readonly line: number;
  readonly turn: bigint;
  readonly fence: bigint | null;
  readonly digest: string;
  readonly final: boolean;
}

interface PendingRedaction extends Redaction {
  readonly line: number;
}

/** What the lines since the last checkpoint state, and counts only under the next good seal. */
interface Pending {
  commitments: Committed[];
  redactions: PendingRedaction[];
}

/** Places of recovery events. */
interface Tails {
  adopted: Partial<Place>[];
  dropped: Partial<Place>[];
}

/** What the second look finds: the first signature that does not verify, and what was good before it. */
interface SecondLook {
  readonly code: string;
  readonly place: Partial<Place>;
  readonly checkpoints: number;
  readonly seal: Seal | null;
  readonly sealers: ReadonlyMap<string, Sealer>;
  readonly prefixWrong: Fault | null;
  readonly heads: HeadWatch | null;
}

export class NativeVerifier {
  private readonly report = new Report("transcript", "native");
  private readonly cutter = new LineCutter(MAX_LINE_BYTES, (part) => this.absorbPart(part));
  private readonly prefix = new Sha256();
  private readonly tree = new Frontier();
  /** All bytes since the last checkpoint but a last LF. */
  private readonly sinceSeal = new LateSha256();
  private sinceSealLf = false;
  private linesSinceSeal = 0;
  /** Offset of the line that is read. */
  private offset = 0;
  private lineNumber = 0;
  private manifest: Manifest | null = null;
  private keys: RecordKeys | null = null;
  private keysAtSeal: RecordKeys | null = null;
  private state: State = "open";
  private stateAtSeal: State = "open";
  /** What the line before was, where it has no fault. */
  private before: EventKind | null = null;
  private fault: Fault | null = null;
  private failed = false;
  private seal: Seal | null = null;
  private sealers = new Map<string, Sealer>();
  /** Whether the last signature of each key holds, by note and `sig`. */
  private readonly lastNotes = new Map<string, boolean>();
  private lastSig = true;
  private secondLook: SecondLook | null = null;
  private prefixWrong: Fault | null = null;
  private readonly commitments = new Map<string, Committed>();
  /** Lines of the sealed `redacted` events. */
  private readonly redactions: number[] = [];
  private pending: Pending = nothingPending();
  /** Where tails were adopted and dropped: under good seals, and since the last. */
  private readonly tails: Tails = noTails();
  private pendingTails: Tails = noTails();
  /** Tails whose events are under a good seal; of the findings only some are kept. */
  private adoptedTails = 0;
  private heads: HeadWatch | null;

  constructor(private readonly options: NativeOptions) {
    this.heads = options.head == null ? null : new HeadWatch(options.head);
  }

  async push(chunk: Uint8Array): Promise<void> {
    this.report.stats.bytes += chunk.length;
    if (this.failed) {
      this.countLines(chunk);
      return;
    }
    for (const line of this.cutter.cut(chunk)) {
      this.report.stats.events++;
      if (this.failed) continue;
      const pending = this.line(line);
      if (pending !== null) await pending;
    }
  }

  async finish(): Promise<Report> {
    const torn = this.failed ? null : this.cutter.rest();
    if (!this.failed && this.seal === null) this.fail("tampered", "seal_0_missing", null);
    this.lookAgain();
    this.report.record = this.manifest === null ? null : hex(this.manifest.record);
    const vouched = this.conclude();
    if (!this.failed) this.concludeTail(torn);
    if (!this.failed && this.seal?.final === false && this.heads === null) {
      this.report.downgrade("open", "end_unproved", "note");
    }
    await this.concludeBodies();
    this.report.check("seals", this.failed || this.prefixWrong !== null ? "fail" : "pass");
    this.setPlaces(vouched);
    return this.report;
  }

  /** Takes the result of the second look, where one is due and it has another. */
  private lookAgain(): void {
    const look = this.secondLook;
    const lastHold = this.lastSig && [...this.lastNotes.values()].every((good) => good);
    const due = this.failed || this.prefixWrong !== null || !lastHold || this.tails.adopted.length > 0;
    if (look === null || !due) return;
    this.report.clear();
    this.report.stats.checkpoints = look.checkpoints;
    this.seal = look.seal;
    this.sealers = new Map(look.sealers);
    this.prefixWrong = look.prefixWrong;
    this.heads = look.heads;
    this.fail("forged", look.code, look.place);
  }

  private countLines(chunk: Uint8Array): void {
    for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, at + 1)) this.report.stats.events++;
  }

  // ------------------------------------------------------------------------------------ A: lines

  /** Takes a line that ends in LF; a promise where a signature has to be checked. */
  private line(cut: CutLine): Promise<void> | null {
    this.lineNumber++;
    if (this.lineNumber === 1) return this.firstLine(cut);
    const line = cut.bytes === null ? null : parseNativeLine(cut.bytes, this.manifest?.id ?? null);
    if (line === null) {
      this.addFault("line_malformed", cut);
      this.absorb(cut, null);
      return null;
    }
    if (!equal(line.id, this.manifest!.id)) this.addFault("thread_id_changed", cut);
    if (line.kind === "checkpoint") return this.checkpoint(line, cut);
    if (this.seal === null) {
      this.fail("tampered", "seal_0_missing", this.placeOf(cut));
      return null;
    }
    return this.event(line, cut);
  }

  private async firstLine(cut: CutLine): Promise<void> {
    const line = cut.bytes === null ? null : parseNativeLine(cut.bytes);
    const manifest = line === null ? null : parseManifest(line);
    if (manifest === null) return this.fail("tampered", "manifest_missing", this.placeOf(cut));
    this.manifest = manifest;
    this.keys = new RecordKeys(hex(manifest.authority), hex(manifest.key));
    this.keysAtSeal = this.keys.clone();
    if (!(await delegationHolds(manifest))) return this.fail("forged", "delegation_bad", this.placeOf(cut));
    this.absorb(cut, "manifest");
  }

  private placeOf(cut: CutLine): Partial<Place> {
    return { line: this.lineNumber, bytes: [this.offset, this.offset + cut.length + 1] };
  }

  /** Of several faults since the last checkpoint the first counts. */
  private addFault(code: string, cut: CutLine): void {
    this.fault ??= { code, place: this.placeOf(cut) };
  }

  private fail(verdict: Verdict, code: string, place: Partial<Place> | null): void {
    this.failed = true;
    this.report.downgrade(verdict, code, "error", place);
  }

  /** Adds the line to tree and digests; `kind` is what it counts as for the line behind it. */
  private absorb(cut: CutLine, kind: EventKind | null): void {
    if (cut.bytes !== null) this.absorbPart(cut.bytes);
    this.tree.push(cut.leaf ?? leafHash(cut.bytes!));
    this.prefix.update(LF);
    this.sinceSealLf = true;
    this.linesSinceSeal++;
    this.offset += cut.length + 1;
    this.before = kind;
  }

  private absorbPart(part: Uint8Array): void {
    this.prefix.update(part);
    if (this.sinceSealLf) this.sinceSeal.update(LF);
    this.sinceSealLf = false;
    this.sinceSeal.update(part);
  }

  // ----------------------------------------------------------------------------------- A: events

  private event(line: NativeLine, cut: CutLine): Promise<void> | null {
    const code = faultOfEvent(line.kind, this.state);
    if (code !== null) this.addFault(code, cut);
    if (mayCommit(line.kind)) {
      if (this.manifest!.detached && !this.commit(line, cut)) return null;
      if (line.kind === "terminal" && this.state === "open") this.state = "closing";
      this.absorb(cut, line.kind);
      return null;
    }
    return this.reservedEvent(line, cut);
  }

  /** Remembers the commitments of a line; false where there are too many. */
  private commit(line: NativeLine, cut: CutLine): boolean {
    const found = commitmentsOf(line);
    if (found === null) {
      this.addFault("event_malformed", cut);
      return true;
    }
    for (const one of found) {
      if (this.commitments.has(one.digest)) {
        this.addFault("event_malformed", cut);
        continue;
      }
      if (this.commitments.size >= MAX_RECORD_BODIES) {
        this.fail("malformed", "too_many_bodies", this.placeOf(cut));
        return false;
      }
      const committed: Committed = {
        bytes: one.bytes, line: this.lineNumber, judged: false, redacted: false, body: "none",
      };
      this.commitments.set(one.digest, committed);
      this.pending.commitments.push(committed);
    }
    return true;
  }

  private async reservedEvent(line: NativeLine, cut: CutLine): Promise<void> {
    const good = await this.applyReserved(line, payloadText(line), cut);
    if (!good) this.addFault("event_malformed", cut);
    this.absorb(cut, good ? line.kind : null);
  }

  /** The effect of a reserved event; false where its payload is refused. */
  private async applyReserved(line: NativeLine, payload: string, cut: CutLine): Promise<boolean> {
    const manifest = this.manifest!;
    const keys = this.keys!;
    switch (line.kind) {
      case "key": {
        const next = parseKeyEvent(payload);
        return next !== null && keys.announce(hex(next));
      }
      case "delegation": {
        const one = parseDelegation(payload);
        return one !== null && (await delegatesTo(manifest.authority, manifest.origin, one)) && keys.delegate(hex(one.key));
      }
      case "authority": {
        const one = parseAuthority(payload);
        if (one === null || this.state !== "ended") return false;
        return (await rotatesTo(rawKey(keys.authoritySoFar()), one)) && keys.inherit(hex(one.key));
      }
      case "tail_dropped":
        return this.tailDropped(payload, cut);
      case "tail_adopted":
        return this.tailAdopted(payload);
      case "redacted":
        return this.redacted(payload);
      default:
        return false;
    }
  }

  private tailDropped(payload: string, cut: CutLine): boolean {
    const one = parseTailDropped(payload);
    if (one === null || this.seal === null || one.offset !== BigInt(this.offset)) return false;
    this.restore();
    keep(this.pendingTails.dropped, this.placeOf(cut));
    return true;
  }

  private tailAdopted(payload: string): boolean {
    const one = parseTailAdopted(payload);
    if (one === null || this.seal === null || one.from !== BigInt(this.seal.size) || one.to !== BigInt(this.offset)) return false;
    if (one.lines !== BigInt(this.linesSinceSeal) || !this.isDigestSinceSeal(one.sha256)) return false;
    if (this.adoptedTails >= MAX_ADOPTED_TAILS) return false;
    this.restore();
    this.fault = null;
    this.pending = nothingPending();
    keep(this.pendingTails.adopted, { bytes: [this.seal.size, this.offset], line: this.lineNumber });
    return true;
  }

  private isDigestSinceSeal(digest: string): boolean {
    if (hex(this.sinceSeal.digestWith(NOTHING)) === digest) return true;
    return this.sinceSealLf && hex(this.sinceSeal.digestWith(LF)) === digest;
  }

  /** The state of the last checkpoint: keys, open or ended. */
  private restore(): void {
    this.state = this.stateAtSeal;
    this.keys = this.keysAtSeal!.clone();
  }

  private redacted(payload: string): boolean {
    const one = parseRedaction(payload);
    if (one === null || !one.commitments.every((digest) => this.commitments.has(digest))) return false;
    if (this.pending.redactions.some((other) => other.key !== one.key)) return false;
    this.pending.redactions.push({ ...one, line: this.lineNumber });
    return true;
  }

  // ------------------------------------------------------------------------------ B: checkpoints

  private async checkpoint(line: NativeLine, cut: CutLine): Promise<void> {
    this.report.stats.checkpoints++;
    const manifest = this.manifest!;
    const place = this.placeOf(cut);
    const seal = parseCheckpoint(line, manifest.origin);
    if (typeof seal === "string") return this.fail(seal === "ext_unknown" ? "malformed" : "tampered", seal, place);
    const by = this.keys!.maySeal(seal.key);
    if (by === null) return this.fail("forged", "key_not_allowed", place);
    const noteGood = await noteHolds(seal, manifest.origin, rawKey(by.key));
    const misplaced = this.misplaced(seal, place);
    if (misplaced !== null) {
      if (!noteGood) return this.fail("forged", "signature_bad", place);
      if (this.fault !== null) this.report.downgrade("tampered", this.fault.code, "error", this.fault.place);
      return this.fail("tampered", misplaced.code, misplaced.place);
    }
    if (this.fault !== null) return this.fail("tampered", this.fault.code, this.fault.place);
    const next = seal.nextKey === null ? null : hex(seal.nextKey);
    if (next !== null && !this.keys!.mayNameNext(by, next)) return this.fail("forged", "next_key_bad", place);
    if (!sealMayStand(seal.final, this.state, this.before)) return this.fail("malformed", "end_misplaced", place);
    if (seal.fp !== ryeFingerprint(manifest.ryeKey)) return this.fail("tampered", "rye_key_changed", place);
    if (this.pending.redactions.some((one) => one.key !== seal.key)) {
      return this.fail("tampered", "redactor_differs", place);
    }
    const sigGood = await sigHolds(seal, manifest.ryeKey);
    if (!noteGood || !sigGood) this.keepSecondLook(noteGood ? "rye_signature_bad" : "signature_bad", place);
    this.lastNotes.set(by.key, noteGood);
    this.lastSig = sigGood;
    this.good(seal, by, next, cut);
  }

  /** Step 5: the first that differs, or null. */
  private misplaced(seal: Checkpoint, place: Partial<Place>): Fault | null {
    const last = this.seal;
    if (seal.seq !== (last === null ? 0n : last.seq + 1n)) return { code: "seal_missing", place };
    if (seal.prev !== (last?.digest ?? null)) return { code: "link_broken", place };
    const inPlace = seal.lines === BigInt(this.tree.size) && seal.byteOffset === BigInt(this.offset);
    if (!inPlace || !equal(seal.root, this.tree.root())) {
      return { code: "content_changed", place: { bytes: [last?.size ?? 0, this.offset] } };
    }
    if (last !== null && seal.turn < last.turn) return { code: "turn_backwards", place };
    if (last !== null && last.fence !== null && (seal.fence === null || seal.fence < last.fence)) {
      return { code: "fence_backwards", place };
    }
    return null;
  }

  private keepSecondLook(code: string, place: Partial<Place>): void {
    this.secondLook ??= {
      code, place, checkpoints: this.report.stats.checkpoints, seal: this.seal,
      sealers: new Map(this.sealers),
      prefixWrong: this.prefixWrong, heads: this.heads?.clone() ?? null,
    };
  }

  private good(seal: Checkpoint, by: SealingKey, next: string | null, cut: CutLine): void {
    if (seal.hash !== hex(this.prefix.digest())) {
      this.prefixWrong ??= { code: "prefix_hash_wrong", place: this.placeOf(cut) };
    }
    const place = this.placeOf(cut);
    this.keys!.sealed(by, next, seal.final);
    const heir = by.role === "heir" || this.sealers.get(by.key)?.heir === true;
    this.sealers.set(by.key, { key: rawKey(by.key), heir });
    this.seal = {
      seq: seal.seq, size: this.offset + cut.length + 1, line: this.lineNumber, turn: seal.turn, fence: seal.fence,
      digest: seal.digest, final: seal.final,
    };
    this.heads?.see(hex(this.manifest!.record), {
      seq: Number(seal.seq), size: BigInt(this.seal.size), line: seal.digest,
    });
    this.keepPending();
    this.absorb(cut, "checkpoint");
    this.state = seal.final ? "ended" : "open";
    this.stateAtSeal = this.state;
    this.keysAtSeal = this.keys!.clone();
    this.sinceSeal.reset();
    this.sinceSealLf = false;
    this.linesSinceSeal = 0;
    if (this.keys!.tooMany() || this.sealers.size > MAX_RECORD_KEYS) this.fail("malformed", "too_many_keys", place);
  }

  /** What was pending is under a good seal now. */
  private keepPending(): void {
    for (const one of this.pending.commitments) one.judged = true;
    for (const one of this.pending.redactions) {
      for (const digest of one.commitments) this.commitments.get(digest)!.redacted = true;
      this.redactions.push(one.line);
    }
    this.pending = nothingPending();
    if (this.pendingTails.adopted.length > 0) this.adoptedTails += 1;
    for (const place of this.pendingTails.adopted) keep(this.tails.adopted, place);
    for (const place of this.pendingTails.dropped) keep(this.tails.dropped, place);
    this.pendingTails = noTails();
  }

  // ------------------------------------------------------------------------------- C, D: the end

  /** Steps 2 to 6 of D, also after a failure. Whether the trust vouches for all keys. */
  private conclude(): boolean {
    const report = this.report;
    const manifest = this.manifest;
    if (this.prefixWrong !== null) report.downgrade("tampered", this.prefixWrong.code, "error", this.prefixWrong.place);
    if (manifest === null) {
      if (this.options.thread != null) report.downgrade("foreign", "thread_differs", "error", { line: 1 });
      return false;
    }
    let vouched = false;
    if (this.sealers.size > 0) {
      const purpose = { usage: "native", format: "transcript", thread: manifest.thread } as const;
      vouched = judgeSealers(report, [...this.sealers.values()], manifest.authority, purpose, this.options.trust);
      report.check("trust", vouched ? "pass" : "fail");
    }
    if (!isThreadPath(manifest.thread)) report.downgrade("malformed", "thread_id_bad", "error", { line: 1 });
    const thread = this.options.thread ?? null;
    if (thread !== null && thread !== manifest.thread) report.downgrade("foreign", "thread_differs", "error", { line: 1 });
    this.concludeHead(hex(manifest.record));
    return vouched;
  }

  /** §6. */
  private concludeHead(record: string): void {
    const { heads, report } = this;
    if (heads === null) return;
    const count = this.seal === null ? 0 : Number(this.seal.seq) + 1;
    const found = heads.result(record, count, this.options.exact === true);
    if (found === null) return report.check("head", "pass");
    // Only a seal before the failure can contradict the head.
    const isUnseen = found.code !== "head_differs" && found.code !== "head_not_last";
    if (this.failed && isUnseen) return report.check("head", "skipped");
    report.check("head", "fail");
    report.downgrade(found.verdict, found.code, found.severity);
  }

  /** Steps 7 and 8 of D. */
  private concludeTail(torn: CutLine | null): void {
    const report = this.report;
    for (const place of this.tails.adopted) report.downgrade("partial", "tail_adopted", "warning", place);
    for (const place of this.tails.dropped) report.downgrade(null, "tail_dropped", "note", place);
    const size = this.seal!.size;
    const end = this.offset + (torn?.length ?? 0);
    if (end === size) return;
    report.downgrade("unsigned_tail", "unsigned_tail", "warning", { bytes: [size, end] });
    if (this.fault !== null) report.downgrade("unsigned_tail", this.fault.code, "error", this.fault.place);
    if (torn !== null) report.downgrade(null, "torn_tail", "warning", { bytes: [this.offset, end] });
  }

  private async concludeBodies(): Promise<void> {
    if (this.failed || this.manifest === null || !this.manifest.detached) return;
    const { bodies } = this.options;
    const good = await judgeBodies(this.report, bodies, this.manifest.record, this.commitments, this.redactions);
    this.report.check("bodies", good === null ? "skipped" : good ? "pass" : "fail");
  }

  private setPlaces(vouched: boolean): void {
    const report = this.report;
    const seal = this.seal;
    if (seal === null || this.prefixWrong !== null) return;
    report.head = headText({ record: report.record!, seq: seal.seq, size: BigInt(seal.size), line: seal.digest });
    if (vouched) report.trusted_until = { line: seal.line, byte: seal.size, turn: seal.turn };
    if (isEvidence(report.verdict)) return;
    report.completeness = seal.final ? "final" : this.heads !== null && this.heads.metAt >= 0 ? "head" : "unproved";
  }
}

function nothingPending(): Pending {
  return { commitments: [], redactions: [] };
}

function noTails(): Tails {
  return { adopted: [], dropped: [] };
}

function keep(places: Partial<Place>[], place: Partial<Place>): void {
  if (places.length < MAX_TAIL_FINDINGS) places.push(place);
}
