// Checking a proof of one turn of a native record (proofs.md, "Proofs of turns"), without a home. The form
// of the file is read in turn-proof-form.ts.

import { equal, hex, utf8 } from "./bytes.js";
import { jcs, memberOf, readStrict } from "./canon.js";
import { keyId, ryeFingerprint } from "./ed25519.js";
import { leafHash, rootByInclusion, rootByRange } from "./merkle.js";
import {
  type Checkpoint, type Commitment, type EventKind, MAX_RECORD_KEYS, type Manifest, type NativeLine, bodyFits,
  commitmentsOf, delegatesTo, delegationHolds, headText, isThreadPath, mayCommit, noteHolds, parseAuthority,
  parseCheckpoint, parseDelegation, parseKeyEvent, parseManifest, parseNativeLine, parseRedaction, parseTailAdopted,
  parseTailDropped, payloadText, rotatesTo, sigHolds,
} from "./native-lines.js";
import { type State, faultOfEvent, sealMayStand } from "./native-order.js";
import { type Place, Report, type Verdict } from "./report.js";
import { sha256 } from "./sha256.js";
import { type Policy, judgeByPolicy } from "./tlog.js";
import { type Trust, judgeSealers } from "./trust.js";
import { type LogPart, type ProofKeys, type TurnProof, parseTurnProof } from "./turn-proof-form.js";

export interface TurnProofOptions {
  readonly trust: Trust;
  /** The thread that is expected. */
  readonly thread?: string | null;
  readonly policy?: Policy | null;
}

/** The first fault of steps 1 to 9. */
class Fault extends Error {
  constructor(
    readonly verdict: Verdict,
    readonly code: string,
    readonly line: bigint | null = null,
  ) {
    super(code);
  }
}

/** A line of the record that is a seal of it. */
interface Seal extends Checkpoint {
  readonly bytes: Uint8Array;
}

/** A shown line. The opening seal is the first. */
interface Shown {
  readonly bytes: Uint8Array;
  readonly number: bigint;
  /** Offset of its first byte in the record. */
  readonly at: bigint;
  readonly line: NativeLine;
  readonly seal: Seal | null;
}

interface Sealer {
  readonly key: Uint8Array;
  readonly head: Seal;
  readonly heir: boolean;
}

export async function checkTurnProof(file: Uint8Array, options: TurnProofOptions): Promise<Report> {
  return new TurnChecker(options).check(file);
}

class TurnChecker {
  private readonly report = new Report("proof", "native");
  private readonly sealers: Sealer[] = [];
  private readonly heirs: Uint8Array[] = [];
  /** Whether a `tail_adopted` is shown. */
  private adopted = false;
  private manifest!: Manifest;
  private proof!: TurnProof;

  constructor(private readonly options: TurnProofOptions) {}

  async check(file: Uint8Array): Promise<Report> {
    this.report.stats.bytes = file.length;
    let closing: Seal;
    let turn: readonly Shown[];
    let bodies: BodiesAnswer;
    try {
      this.proof = await this.form(file);
      this.manifest = await this.readManifest();
      this.report.check("manifest", "pass");
      closing = this.sealOf(this.proof.seal, null);
      await this.followKeys(closing);
      this.report.check("keys", "pass");
      this.report.check("signatures", "pass");
      this.inTree(closing);
      this.report.check("inclusion", "pass");
      turn = this.bounds(closing);
      this.order(turn, closing);
      await this.reservedEvents(turn, closing);
      this.report.check("turn", "pass");
      bodies = this.bodies(turn);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const line = error.line === null ? null : Number(error.line);
      this.report.downgrade(error.verdict, error.code, "error", { line });
      return this.report;
    }
    this.report.stats.events = turn.length;
    this.report.stats.checkpoints = turn.filter((one) => one.seal !== null).length;
    await this.conclude(closing, turn, bodies);
    return this.report;
  }

  // ------------------------------------------------------------------------------ steps 1, 2, 3

  private async form(file: Uint8Array): Promise<TurnProof> {
    const proof = parseTurnProof(file);
    if (proof === null) throw new Fault("malformed", "proof_malformed");
    return proof;
  }

  private async readManifest(): Promise<Manifest> {
    const line = parseNativeLine(this.proof.manifest);
    if (line === null) throw new Fault("tampered", "line_malformed", 1n);
    const manifest = parseManifest(line);
    if (manifest === null) throw new Fault("tampered", "manifest_missing", 1n);
    if (!(await delegationHolds(manifest))) throw new Fault("forged", "delegation_bad");
    if (!isThreadPath(manifest.thread)) throw new Fault("malformed", "thread_id_bad", 1n);
    return manifest;
  }

  /** A native line of the thread. */
  private nativeLine(bytes: Uint8Array, number: bigint | null): NativeLine {
    const line = parseNativeLine(bytes, this.manifest.id);
    if (line === null) throw new Fault("tampered", "line_malformed", number);
    if (!equal(line.id, this.manifest.id)) throw new Fault("tampered", "thread_id_changed", number);
    return line;
  }

  /** "A seal of the record". */
  private sealOf(bytes: Uint8Array, number: bigint | null): Seal {
    const line = this.nativeLine(bytes, number);
    const seal = line.kind === "checkpoint" ? parseCheckpoint(line, this.manifest.origin) : "checkpoint_malformed";
    if (typeof seal === "string") throw new Fault(seal === "ext_unknown" ? "malformed" : "tampered", seal, number);
    return { ...seal, bytes };
  }

  // --------------------------------------------------------------------------------- step 4: keys

  /** Walks through the shown lines, and takes the seals that have to verify. */
  private async followKeys(closing: Seal): Promise<void> {
    let lastRead: { bytes: Uint8Array; number: bigint } | null = null;
    let lastTaken: Seal | null = null;
    let heirSinceSeal = false;
    for (const [i, bytes] of this.proof.lines.entries()) {
      const number = this.proof.first + BigInt(i);
      const line = parseNativeLine(bytes, this.manifest.id);
      if (line === null) continue;
      if (line.kind === "checkpoint") {
        lastRead = { bytes, number };
        heirSinceSeal = false;
      } else if (line.kind === "authority") {
        if (lastRead !== null) {
          lastTaken = this.sealOf(lastRead.bytes, lastRead.number);
          await this.take(lastTaken);
          lastRead = null;
        }
        if (lastTaken === null || !lastTaken.final) throw new Fault("tampered", "event_malformed", number);
        await this.inherit(line, number);
        heirSinceSeal = true;
      } else if (line.kind === "tail_dropped" && heirSinceSeal) {
        throw new Fault("tampered", "event_malformed", number);
      } else if (line.kind === "tail_adopted") {
        this.adopted = true;
      }
    }
    await this.take(closing);
  }

  private async inherit(line: NativeLine, number: bigint): Promise<void> {
    const one = parseAuthority(payloadText(line));
    const before = this.heirs.at(-1) ?? this.manifest.authority;
    const known = [...this.sealers.map((sealer) => sealer.key), ...this.heirs, this.manifest.authority];
    const good = one !== null && (await rotatesTo(before, one)) && !known.some((key) => equal(key, one.key))
      && this.heirs.length < MAX_RECORD_KEYS;
    if (!good) throw new Fault("tampered", "event_malformed", number);
    this.heirs.push(one.key);
  }

  /** "Taking" a seal. */
  private async take(seal: Seal): Promise<void> {
    const heir = this.heirs.at(-1);
    if (heir !== undefined && this.adopted) throw new Fault("tampered", "event_malformed");
    let way: Uint8Array[];
    if (heir === undefined) way = await followTo(seal, this.proof.keys, this.manifest, (bytes) => this.sealOf(bytes, null), (bytes) => this.nativeLine(bytes, null));
    else {
      if (seal.key !== hex(keyId(heir))) throw new Fault("forged", "key_not_allowed");
      way = [heir];
    }
    if (!(await noteHolds(seal, this.manifest.origin, way.at(-1)!))) throw new Fault("forged", "signature_bad");
    if (seal.fp !== ryeFingerprint(this.manifest.ryeKey)) throw new Fault("tampered", "rye_key_changed");
    if (!(await sigHolds(seal, this.manifest.ryeKey))) throw new Fault("forged", "rye_signature_bad");
    for (const key of way) this.sealers.push({ key, head: seal, heir: this.heirs.some((one) => equal(one, key)) });
  }

  // ------------------------------------------------------------------------------- steps 5 and 6

  private inTree(closing: Seal): void {
    const leaves = this.proof.lines.map((line) => leafHash(line));
    const root = rootByRange(leaves, this.proof.first - 1n, closing.lines, this.proof.hashes);
    if (root === null || !equal(root, closing.root)) throw new Fault("tampered", "content_changed");
  }

  /** "Bounds": the shown lines, and the place of the closing seal. */
  private bounds(closing: Seal): readonly Shown[] {
    const { turn, first, lines } = this.proof;
    const shown: Shown[] = [];
    const wrong = (number: bigint | null): Fault => new Fault("tampered", "turn_bounds_wrong", number);
    let last: Seal | null = null;
    let at = 0n;
    for (const [i, bytes] of lines.entries()) {
      const number = first + BigInt(i);
      const line = this.nativeLine(bytes, number);
      const seal = line.kind === "checkpoint" ? this.sealOf(bytes, number) : null;
      if (last === null) {
        if (seal === null || seal.turn !== turn - 1n || seal.lines !== number - 1n) throw wrong(number);
        at = seal.byteOffset;
      } else if (seal !== null) {
        if (seal.turn !== turn) throw wrong(number);
        if (seal.seq !== last.seq + 1n || seal.prev !== last.digest) throw new Fault("tampered", "link_broken", number);
        if (seal.lines !== number - 1n || seal.byteOffset !== at) throw wrong(number);
      }
      last = seal ?? last;
      shown.push({ bytes, number, at, line, seal });
      at += BigInt(bytes.length + 1);
    }
    this.closingPlace(closing, last!, shown, at);
    return shown;
  }

  private closingPlace(closing: Seal, last: Seal, shown: readonly Shown[], at: bigint): void {
    if (closing.seq !== last.seq + 1n || closing.prev !== last.digest) throw new Fault("tampered", "link_broken");
    const final = shown.at(-1)!;
    const good = closing.turn === this.proof.turn
      ? closing.lines === final.number && closing.byteOffset === at
      : closing.turn > this.proof.turn && shown.length >= 2 && final.seal !== null;
    if (!good) throw new Fault("tampered", "turn_bounds_wrong");
  }

  // --------------------------------------------------------------------------------- step 7: order

  private order(shown: readonly Shown[], closing: Seal): void {
    const adopted = adoptedLines(shown);
    const heirsBefore = { count: 0 };
    let state: State = shown[0]!.seal!.final ? "ended" : "open";
    let stateAtSeal = state;
    let before: EventKind = "checkpoint";
    for (const one of shown.slice(1)) {
      if (adopted.has(one)) continue;
      const kind = one.line.kind;
      if (one.seal !== null) {
        this.mayBeHere(one.seal, state, before, false, heirsBefore.count, one.number);
        state = one.seal.final ? "ended" : "open";
        stateAtSeal = state;
      } else {
        const code = faultOfEvent(kind, state);
        if (code !== null) throw new Fault("tampered", code, one.number);
        if (kind === "terminal") state = "closing";
        if (kind === "tail_dropped" || kind === "tail_adopted") state = stateAtSeal;
        if (kind === "authority") heirsBefore.count++;
      }
      before = kind;
    }
    if (closing.turn > this.proof.turn && state !== "ended") return;
    this.mayBeHere(closing, state, before, closing.turn > this.proof.turn, heirsBefore.count, null);
    const delegate = this.proof.keys.delegation;
    if (state === "ended" && delegate !== null && closing.key === hex(keyId(delegate.key))) {
      throw new Fault("forged", "key_not_allowed");
    }
  }

  /** Whether the state allows a checkpoint, and behind a final one its key. `gap`: ended, and lines before it are not shown. */
  private mayBeHere(seal: Seal, state: State, before: EventKind, gap: boolean, heirs: number, number: bigint | null): void {
    const good = gap ? seal.final : sealMayStand(seal.final, state, before);
    if (!good) throw new Fault("malformed", "end_misplaced", number);
    if (state !== "ended" || (!this.manifest.split && heirs === 0)) return;
    const allowed = heirs === 0 ? this.manifest.authority : this.heirs[heirs - 1]!;
    if (seal.key !== hex(keyId(allowed))) throw new Fault("forged", "key_not_allowed", number);
  }

  // ----------------------------------------------------------------------- step 8: reserved events

  private async reservedEvents(shown: readonly Shown[], closing: Seal): Promise<void> {
    const adopted = adoptedLines(shown);
    let lastSeal = 0;
    let redactor: string | null = null;
    for (const [i, one] of shown.entries()) {
      if (one.seal !== null) {
        lastSeal = i;
        redactor = null;
      }
      if (one.seal !== null || adopted.has(one)) continue;
      const redaction = one.line.kind === "redacted" ? parseRedaction(payloadText(one.line)) : null;
      const good = one.line.kind === "redacted"
        ? redaction !== null && (redactor ?? redaction.key) === redaction.key
        : await this.isWellFormed(one, i, lastSeal, shown);
      if (!good) throw new Fault("tampered", "event_malformed", one.number);
      if (redaction === null) continue;
      redactor = redaction.key;
      const next = shown.slice(i).find((later) => later.seal !== null)?.seal ?? closing;
      if (redactor !== next.key) throw new Fault("tampered", "redactor_differs", one.number);
    }
  }

  private async isWellFormed(one: Shown, index: number, lastSeal: number, shown: readonly Shown[]): Promise<boolean> {
    const payload = payloadText(one.line);
    switch (one.line.kind) {
      case "key":
        return parseKeyEvent(payload) !== null;
      case "delegation": {
        const delegated = parseDelegation(payload);
        return delegated !== null && delegatesTo(this.manifest.authority, this.manifest.origin, delegated);
      }
      case "tail_dropped":
        return parseTailDropped(payload)?.offset === one.at;
      case "tail_adopted":
        return isAdoption(payload, one, shown.slice(lastSeal + 1, index), shown[lastSeal]!);
      default:
        return true;
    }
  }

  // -------------------------------------------------------------------------------- step 9: bodies

  private bodies(shown: readonly Shown[]): BodiesAnswer {
    const { bodies } = this.proof;
    const answer: BodiesAnswer = { commitments: 0, redacted: 0, missing: 0 };
    if (!this.manifest.detached) {
      if (bodies.length > 0) throw new Fault("tampered", "body_changed");
      return answer;
    }
    const commitments = new Map<string, Commitment>();
    for (const one of shown.slice(1)) {
      if (!mayCommit(one.line.kind)) continue;
      const found = commitmentsOf(one.line);
      if (found === null) throw new Fault("tampered", "event_malformed", one.number);
      for (const commitment of found) {
        if (commitments.has(commitment.digest)) throw new Fault("tampered", "event_malformed", one.number);
        commitments.set(commitment.digest, commitment);
      }
    }
    const redacted = redactedIn(shown);
    let at = 0;
    for (const commitment of commitments.values()) {
      const body = bodies[at];
      const given = body?.commitment === commitment.digest;
      if (body !== undefined && given) {
        at++;
        const fits = BigInt(body.body.length) === commitment.bytes && bodyFits(this.manifest.record, body);
        if (!fits) throw new Fault("tampered", "body_changed");
      }
      answer.commitments++;
      if (redacted.has(commitment.digest)) answer.redacted++;
      else if (!given) answer.missing++;
    }
    if (at !== bodies.length) throw new Fault("tampered", "body_changed");
    return answer;
  }

  // ------------------------------------------------------------------------------ steps 10 to 17

  private async conclude(closing: Seal, shown: readonly Shown[], bodies: BodiesAnswer): Promise<void> {
    const { report, manifest, proof } = this;
    report.record = hex(manifest.record);
    report.head = headText({
      record: report.record, seq: closing.seq, line: closing.digest,
      size: closing.byteOffset + BigInt(closing.bytes.length) + 1n,
    });
    const purpose = { usage: "native", format: "transcript", thread: manifest.thread } as const;
    const vouched = judgeSealers(report, this.sealers, manifest.authority, purpose, this.options.trust);
    report.check("trust", vouched ? "pass" : "fail");
    const thread = this.options.thread ?? null;
    const differs = thread !== null && thread !== manifest.thread;
    if (differs) report.downgrade("foreign", "thread_differs", "error", { line: 1 });
    report.check("thread", thread === null ? "skipped" : differs ? "fail" : "pass");
    if (this.saltTwice()) report.downgrade(null, "siblings_guessable", "warning");
    const place: Partial<Place> = { turn: proof.turn };
    if (shown.some((one) => one.line.kind === "tail_adopted")) report.downgrade("partial", "tail_adopted", "warning", place);
    if (bodies.commitments > 0) report.check("bodies", bodies.missing > 0 ? "skipped" : "pass");
    if (bodies.missing > 0) report.downgrade("partial", "bodies_unread", "warning");
    if (bodies.redacted > 0) report.downgrade(null, "redacted", "note");
    if (closing.turn === proof.turn && !closing.final) report.downgrade("open", "turn_may_go_on", "note", place);
    await this.logPart(proof.log, closing);
  }

  /** Whether two different lines of the file have one salt. */
  private saltTwice(): boolean {
    const { manifest, keys, lines, seal } = this.proof;
    const steps = keys.steps.flatMap((step) => (step.kind === "key" ? [step.event, step.seal] : [step.seal]));
    const lineOf = new Map<string, string>();
    for (const bytes of [manifest, ...steps, ...lines, seal]) {
      const salt = parseNativeLine(bytes, this.manifest.id)?.salt;
      if (salt === undefined) continue;
      const digest = hex(sha256(bytes));
      const other = lineOf.get(salt) ?? digest;
      if (other !== digest) return true;
      lineOf.set(salt, digest);
    }
    return false;
  }

  /** "The log part". */
  private async logPart(log: LogPart | null, closing: Seal): Promise<void> {
    const { report } = this;
    const policy = this.options.policy ?? null;
    const bad = (): void => {
      report.check("anchor", "fail");
      report.downgrade("tampered", "anchor_bad", "error");
    };
    const missing = (): void => {
      report.check("anchor", "fail");
      report.downgrade("open", "anchor_missing", "warning");
    };
    if (log === null) {
      if (policy === null) report.check("anchor", "skipped");
      else missing();
      return;
    }
    const { index, hashes, checkpoint } = log.proof;
    const root = rootByInclusion(leafHash(log.entry), index, checkpoint.size, hashes);
    if (!this.isEntryOf(log.entry, closing) || root === null || !equal(root, checkpoint.root)) return bad();
    const answer = policy === null ? "no policy" : (await judgeByPolicy(checkpoint, policy)).answer;
    if (answer === "bad line") return bad();
    if (answer === "met") return report.check("anchor", "pass");
    report.unauthenticated.push(`log=${checkpoint.origin}`, `log_entry=${index}`, `log_size=${checkpoint.size}`);
    if (answer === "no policy") report.check("anchor", "skipped");
    else missing();
  }

  /** Whether the entry is the `head/transcript` of the closing seal, in its one spelling. */
  private isEntryOf(entry: Uint8Array, closing: Seal): boolean {
    const reading = readStrict(entry);
    if (!reading.ok || reading.value.kind !== "object") return false;
    const value = reading.value;
    const size = closing.byteOffset + BigInt(closing.bytes.length) + 1n;
    const expected = new Map<string, string>([
      ["digest", `"${closing.digest}"`],
      ["record", `"${hex(this.manifest.record)}"`],
      ["seq", `${closing.seq}`],
      ["size", `${size}`],
      ["type", '"head/transcript"'],
    ]);
    if (memberOf(value, "root") !== null) expected.set("root", `"${hex(closing.root)}"`);
    if (memberOf(value, "key") !== null) expected.set("key", `"${closing.key}"`);
    const spelled = [...expected].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, text]) => `"${name}":${text}`);
    const canonical = jcs(value);
    return canonical !== null && equal(canonical, entry) && equal(utf8(`{${spelled.join(",")}}`), entry);
  }
}

// -------------------------------------------------------------------------------------- functions

/** "Following `keys` up to a seal": the keys that sealed, in order. */
export async function followTo(
  seal: Seal,
  keys: ProofKeys,
  manifest: Manifest,
  sealOf: (bytes: Uint8Array) => Seal,
  nativeLine: (bytes: Uint8Array) => NativeLine,
): Promise<Uint8Array[]> {
  const way: Uint8Array[] = [];
  let current = manifest.key;
  let after: bigint | null = null;
  const were: Uint8Array[] = [manifest.key];
  const { delegation } = keys;
  if (delegation !== null) {
    if (!(await delegatesTo(manifest.authority, manifest.origin, delegation))) throw new Fault("forged", "delegation_bad");
    current = delegation.key;
  }
  const signerOf = (one: Seal): Uint8Array | null => {
    if (one.key === hex(keyId(current))) return current;
    return manifest.split && one.key === hex(keyId(manifest.authority)) ? manifest.authority : null;
  };
  for (const step of keys.steps) {
    const one = sealOf(step.seal);
    const signer = step.kind === "key" && one.key !== hex(keyId(current)) ? null : signerOf(one);
    if (signer === null || !(await noteHolds(one, manifest.origin, signer))) throw new Fault("forged", "signature_bad");
    const next = step.kind === "next" ? one.nextKey : announcedKey(one, step.event, step.hashes, nativeLine);
    const isTaken = next !== null
      && (were.some((key) => equal(key, next)) || (manifest.split && equal(next, manifest.authority)));
    if (next === null || isTaken || (after !== null && one.seq <= after)) throw new Fault("forged", "key_step_bad");
    way.push(signer);
    current = next;
    were.push(next);
    after = one.seq;
  }
  const signer = signerOf(seal);
  if (signer === null || (after !== null && seal.seq <= after)) throw new Fault("forged", "key_not_allowed");
  way.push(signer);
  return way;
}

/** The key that a `key` event announces on the line before its seal, or null where it does not. */
function announcedKey(
  seal: Seal, bytes: Uint8Array, hashes: readonly Uint8Array[], nativeLine: (bytes: Uint8Array) => NativeLine,
): Uint8Array | null {
  if (seal.nextKey !== null || seal.lines < 1n) return null;
  const root = rootByInclusion(leafHash(bytes), seal.lines - 1n, seal.lines, hashes);
  if (root === null || !equal(root, seal.root)) return null;
  const event = nativeLine(bytes);
  return event.kind === "key" ? parseKeyEvent(payloadText(event)) : null;
}

interface BodiesAnswer {
  commitments: number;
  redacted: number;
  missing: number;
}

/** The lines of adopted tails: from a seal to a `tail_adopted` event without a seal between. */
function adoptedLines(shown: readonly Shown[]): ReadonlySet<Shown> {
  const adopted = new Set<Shown>();
  let since: Shown[] = [];
  for (const one of shown) {
    if (one.seal !== null) since = [];
    else {
      if (one.line.kind === "tail_adopted") for (const line of since) adopted.add(line);
      since.push(one);
    }
  }
  return adopted;
}

/** Whether a `tail_adopted` names the lines between the last seal and itself. */
function isAdoption(payload: string, one: Shown, between: readonly Shown[], last: Shown): boolean {
  const adopted = parseTailAdopted(payload);
  const from = last.at + BigInt(last.bytes.length) + 1n;
  if (adopted === null || adopted.from !== from || adopted.to !== one.at) return false;
  if (adopted.lines !== BigInt(between.length)) return false;
  const bytes = new Uint8Array(Number(one.at - from));
  let at = 0;
  for (const line of between) {
    bytes.set(line.bytes, at);
    at += line.bytes.length + 1;
    bytes[at - 1] = 0x0a;
  }
  const whole = hex(sha256(bytes)) === adopted.sha256;
  return whole || (at > 0 && hex(sha256(bytes.subarray(0, at - 1))) === adopted.sha256);
}

/** The commitments that `redacted` events name which no `tail_adopted` follows before the next seal. */
function redactedIn(shown: readonly Shown[]): ReadonlySet<string> {
  const redacted = new Set<string>();
  let since: string[] = [];
  const keep = (): void => {
    for (const digest of since) redacted.add(digest);
    since = [];
  };
  for (const one of shown.slice(1)) {
    if (one.seal !== null) keep();
    else if (one.line.kind === "tail_adopted") since = [];
    else if (one.line.kind === "redacted") since.push(...(parseRedaction(payloadText(one.line))?.commitments ?? []));
  }
  keep();
  return redacted;
}
