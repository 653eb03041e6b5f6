// Verifying an observed log and the seals beside it (transcript.md §9).

import { equal, hex, utf8, ascii } from "./bytes.js";
import { type ExpectedHead, HeadWatch } from "./heads.js";
import { validateAscii, readStrict } from "./json.js";
import { LineCutter, type CutLine, MAX_LINE_BYTES } from "./lines.js";
import { Frontier, leafHash } from "./merkle.js";
import { headText } from "./native-lines.js";
import { MAX_OBSERVED_NEXT_KEYS, hasKey, isNextLine, judgeKeys, nextKeyHolds, parseNextKey } from "./observed-keys.js";
import {
  MAX_OBSERVED_LINES, MAX_OBSERVED_REDACTIONS, type ObservedSeal, STATEMENT_START, Salts, type SealHeader,
  type Statement, parseLeaves, parseSeal, parseSealHeader, parseStatement, saltedLeaf, sealHolds, statementHolds,
} from "./observed-lines.js";
import { type Place, Report, type Verdict, isEvidence } from "./report.js";
import { Sha256 } from "./sha256.js";
import type { Trust } from "./trust.js";

export interface ObservedOptions {
  readonly trust: Trust;
  readonly head?: ExpectedHead | null;
  readonly exact?: boolean;
}

export const AUTHOR_UNAUTHENTICATED = "author: an observed seal proves that bytes existed, not who wrote them";

/** For so many lines the three edits of a line are compared (§9, "Verifying: the log", 4). */
const MAX_FOLLOWED_LINES = 256;

const LF = Uint8Array.of(0x0a);

/** A growing list of digests. */
class HashList {
  length = 0;
  private bytes = new Uint8Array(32 * 64);

  push(hash: Uint8Array): void {
    const at = 32 * this.length;
    if (at === this.bytes.length) {
      const larger = new Uint8Array(2 * at);
      larger.set(this.bytes);
      this.bytes = larger;
    }
    this.bytes.set(hash, at);
    this.length++;
  }

  at(index: number): Uint8Array {
    return this.bytes.subarray(32 * index, 32 * index + 32);
  }
}

/** A good seal. */
interface GoodSeal {
  readonly seal: ObservedSeal;
  readonly line: number;
  readonly key: Uint8Array;
}

/** Reads a seal file, then compares a log with it. Files come in parts. */
export class ObservedVerifier {
  private readonly report = new Report("log", "observed");
  private header: SealHeader | null = null;
  private salts: Salts | null = null;
  private readonly statements: { statement: Statement; line: number }[] = [];
  private holding: Statement[] = [];
  private readonly leaves = new HashList();
  private readonly tree = new Frontier();
  private sidecar = new Sha256();
  private readonly seals: GoodSeal[] = [];
  /** The key of the header and those that were named after it. */
  private readonly keys: Uint8Array[] = [];
  /** How many of these are under a good seal. */
  private sealedKeys = 1;
  private inFront = true;
  private stopped = false;
  private lastIsSeal = false;
  /** Whether a line without LF follows the last whole one. */
  private torn = false;
  /** Whether a step of the seal file found a fault. */
  private faulty = false;
  private sealLines = 0;

  constructor(private readonly options: ObservedOptions) {}

  /** Both files; a log that is null is not there. */
  async verify(log: AsyncIterable<Uint8Array> | null, seals: AsyncIterable<Uint8Array>): Promise<Report> {
    await this.readSeals(seals);
    const header = this.header;
    if (header === null) return this.report;
    await this.judgeStatements(header);
    this.report.record = hex(header.record);
    this.report.unauthenticated.push(AUTHOR_UNAUTHENTICATED);
    const last = this.seals.at(-1)?.seal ?? null;
    if (last !== null) this.report.head = this.headOf(last);
    let vouched = false;
    if (last !== null) {
      vouched = this.judgeKeys();
      this.report.check("trust", vouched ? "pass" : "fail");
    } else {
      this.report.downgrade("unsigned", "no_seal", "warning");
    }
    if (log === null) {
      this.report.downgrade("missing", "log_missing", "error");
      return this.report;
    }
    const compare = new LogCompare(this.report, this.sealed(header, last), this.holding);
    await compare.read(log);
    if (last === null) return this.report;
    const differs = compare.conclude();
    this.report.check("lines", differs === null ? "pass" : "fail");
    this.end(last, vouched, differs);
    return this.report;
  }

  private judgeKeys(): boolean {
    const keys = this.keys.slice(0, this.sealedKeys);
    const seals = (key: Uint8Array): boolean => this.seals.some((seal) => equal(seal.key, key));
    return judgeKeys(this.report, keys.map((key) => ({ key, seals: seals(key) })), this.options.trust);
  }

  private headOf(seal: ObservedSeal): string {
    return headText({ record: hex(this.header!.record), seq: seal.seq, size: seal.size, line: seal.digest });
  }

  private sealed(header: SealHeader, last: ObservedSeal | null): Sealed {
    return {
      format: header.format, salts: this.salts, leaves: this.leaves,
      count: Number(last?.lines ?? 0n), size: Number(last?.size ?? 0n), final: last?.final === true,
    };
  }

  // -------------------------------------------------------------------------------- the seal file

  private async readSeals(parts: AsyncIterable<Uint8Array>): Promise<void> {
    const cutter = new LineCutter(MAX_LINE_BYTES);
    for await (const part of parts) {
      for (const cut of cutter.cut(part)) {
        if (!this.stopped) await this.sealFileLine(cut.bytes);
      }
    }
    if (this.stopped) return;
    const rest = cutter.rest();
    if (this.header === null) this.fault("malformed", "seal_header_bad");
    else if (this.header.format === 2 && this.salts === null) this.fault("malformed", "salts_bad");
    const isOpen = this.leaves.length > 0 || this.keys.length > 1;
    this.torn = rest !== null || (isOpen && !this.lastIsSeal);
  }

  private fault(verdict: Verdict, code: string): void {
    this.stopped = true;
    this.faulty = true;
    this.report.downgrade(verdict, code, "error", { line: this.sealLines });
  }

  private async sealFileLine(line: Uint8Array | null): Promise<void> {
    this.sealLines++;
    if (this.header === null) {
      this.header = line === null ? null : parseSealHeader(line);
      if (this.header === null) return this.fault("malformed", "seal_header_bad");
      this.keys.push(this.header.key);
      this.sidecar.update(this.header.line).update(LF);
      return;
    }
    if (this.header.format === 2 && this.salts === null) {
      this.salts = line === null ? null : Salts.parse(line, this.header);
      if (this.salts === null) this.fault("malformed", "salts_bad");
      return;
    }
    if (this.inFront && this.header.format === 2 && line !== null && isStatement(line)) {
      const statement = parseStatement(line, this.header);
      if (statement === null || this.statements.length >= MAX_OBSERVED_REDACTIONS) return this.fault("tampered", "redaction_bad");
      this.statements.push({ statement, line: this.sealLines });
      return;
    }
    this.inFront = false;
    await this.leavesOrSeal(line);
  }

  private async leavesOrSeal(line: Uint8Array | null): Promise<void> {
    if (line === null) return this.fault("tampered", "seal_malformed");
    const leaves = parseLeaves(line);
    if (leaves !== null) {
      if (this.leaves.length + leaves.length / 32 > MAX_OBSERVED_LINES) return this.fault("malformed", "too_many_lines");
      for (let at = 0; at < leaves.length; at += 32) {
        this.leaves.push(leaves.subarray(at, at + 32));
        this.tree.push(leaves.slice(at, at + 32));
      }
      this.lastIsSeal = false;
    } else if (isNextLine(line)) {
      if (!(await this.takeNextKey(line))) return;
    } else {
      const seal = parseSeal(line, this.header!);
      if (seal === null) return this.fault("tampered", "seal_malformed");
      if (!(await this.takeSeal(seal))) return;
    }
    this.sidecar.update(line).update(LF);
  }

  /** Step 5 of a line that names a next key; false where it fails. */
  private async takeNextKey(line: Uint8Array): Promise<boolean> {
    const next = parseNextKey(line);
    if (next === null) {
      this.fault("tampered", "seal_malformed");
      return false;
    }
    const last = this.seals.at(-1)?.seal ?? null;
    const followsSeal = last !== null && !last.final && BigInt(this.tree.size) === last.lines;
    if (!followsSeal || hasKey(this.keys, next.key) || this.keys.length > MAX_OBSERVED_NEXT_KEYS) {
      this.fault("tampered", "seal_order");
      return false;
    }
    if (!(await nextKeyHolds(this.keys.at(-1)!, next))) {
      this.fault("forged", "signature_bad");
      return false;
    }
    this.keys.push(next.key);
    this.lastIsSeal = false;
    return true;
  }

  /** Steps 6 to 8; false where one fails. */
  private async takeSeal(seal: ObservedSeal): Promise<boolean> {
    const last = this.seals.at(-1)?.seal ?? null;
    const inOrder = seal.seq === (last === null ? 0n : last.seq + 1n) && (last === null || seal.size >= last.size);
    if (!inOrder || last?.final === true || seal.sidecar !== hex(this.sidecar.digest())) {
      this.fault("tampered", "seal_order");
      return false;
    }
    if (seal.lines !== BigInt(this.tree.size) || !equal(seal.root, this.tree.root())) {
      this.fault("tampered", "leaves_changed");
      return false;
    }
    const key = this.keys.at(-1)!;
    if (!(await sealHolds(seal, this.header!, key))) {
      this.fault("forged", "signature_bad");
      return false;
    }
    this.seals.push({ seal, line: this.sealLines, key });
    this.sealedKeys = this.keys.length;
    this.report.stats.checkpoints++;
    this.lastIsSeal = true;
    return true;
  }

  /** Steps 9 and 10. */
  private async judgeStatements(header: SealHeader): Promise<void> {
    if (this.torn && !this.faulty) this.report.downgrade(null, "seal_file_torn", "warning");
    for (const { statement, line } of this.statements) {
      const run = statement.runs.at(-1)!;
      const { head } = statement;
      const sealed = this.seals.find(({ seal }) => seal.seq === head.seq)?.seal;
      const known = sealed !== undefined && this.headOf(sealed) === headText(head)
        && BigInt(run.first + run.count - 1) <= sealed.lines;
      const by = statement.key ?? header.key;
      const isNamed = hasKey(this.keys.slice(0, this.sealedKeys), by);
      if (known && isNamed && (await statementHolds(statement, header))) {
        this.holding.push(statement);
        this.report.downgrade(null, "redacted", "note", { line });
      } else {
        this.faulty = true;
        this.report.downgrade("tampered", "redaction_bad", "error", { line });
      }
    }
  }

  // -------------------------------------------------------------------------------------- the end

  /** Step 7, completeness and `trusted_until`. */
  private end(last: ObservedSeal, vouched: boolean, differs: Differs | null): void {
    const report = this.report;
    const met = this.expectedHead(last);
    if (!isEvidence(report.verdict)) {
      report.completeness = last.final ? "final" : met ? "head" : "unproved";
      if (report.completeness === "unproved") report.downgrade("open", "end_unproved", "note");
    }
    if (!vouched) return;
    if (differs !== null) report.trusted_until = { line: differs.line - 1, byte: differs.at, turn: null };
    else if (!isEvidence(report.verdict)) {
      report.trusted_until = { line: Number(last.lines), byte: Number(last.size), turn: null };
    }
  }

  /** §6; whether an expected head is met. */
  private expectedHead(last: ObservedSeal): boolean {
    if (this.options.head == null) return false;
    const report = this.report;
    const record = hex(this.header!.record);
    const heads = new HeadWatch(this.options.head);
    for (const { seal } of this.seals) heads.see(record, { seq: Number(seal.seq), size: seal.size, line: seal.digest });
    const found = heads.result(record, Number(last.seq) + 1, this.options.exact === true);
    const isBehind = found !== null && found.code !== "head_differs" && found.code !== "head_not_last";
    if (found !== null && !(isBehind && this.faulty)) report.downgrade(found.verdict, found.code, found.severity);
    report.check("head", found === null ? "pass" : isBehind && this.faulty ? "skipped" : "fail");
    return heads.metAt >= 0;
  }
}

function isStatement(line: Uint8Array): boolean {
  return line.length >= STATEMENT_START.length && ascii(line, 0, STATEMENT_START.length) === STATEMENT_START;
}

/** Whether a run of the statement has the line. Runs ascend. */
function isInRuns(statement: Statement, number: number): boolean {
  let low = 0;
  let high = statement.runs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const run = statement.runs[middle]!;
    if (number < run.first) high = middle;
    else if (number >= run.first + run.count) low = middle + 1;
    else return true;
  }
  return false;
}

// ------------------------------------------------------------------------------------------ the log

/** What the good seals say of the log. */
interface Sealed {
  readonly format: 1 | 2;
  readonly salts: Salts | null;
  readonly leaves: HashList;
  /** Only so many of the leaves are under a good seal. */
  readonly count: number;
  readonly size: number;
  readonly final: boolean;
}

/** The first line that differs, from 1, and the offset of its first byte. */
interface Differs {
  readonly line: number;
  readonly at: number;
}

class LogCompare {
  private offset = 0;
  private lines = 0;
  private differs: Differs | null = null;
  /** Leaves, as of format 1, of the differing line and those behind it. */
  private readonly after = new HashList();
  private redactedLines = false;
  private unfinished: Differs | null = null;
  /** The end of the last sealed line, its LF included where it has one. */
  private sealedEnd = 0;
  private sealedEndHasLf = false;

  constructor(
    private readonly report: Report,
    private readonly sealed: Sealed,
    private readonly statements: readonly Statement[],
  ) {}

  async read(log: AsyncIterable<Uint8Array>): Promise<void> {
    const cutter = new LineCutter(MAX_LINE_BYTES + 1);
    for await (const part of log) {
      this.report.stats.bytes += part.length;
      for (const cut of cutter.cut(part)) this.line(cut, true);
    }
    const rest = cutter.rest();
    if (rest !== null && this.countsAsLine(rest)) this.line(rest, false);
    else if (rest !== null) this.offset += rest.length;
    this.report.stats.events = this.lines;
  }

  /** Whether a last line without LF counts (§9, "Lines"). */
  private countsAsLine(rest: CutLine): boolean {
    if (this.sealed.final || this.lines < this.sealed.count) return true;
    const bytes = rest.bytes;
    if (bytes === null || (bytes[0] !== 0x7b && bytes[0] !== 0x5b)) return false;
    if (validateAscii(bytes, 0, bytes.length)) return true;
    return readStrict(bytes).ok;
  }

  private line(cut: CutLine, ended: boolean): void {
    const number = ++this.lines;
    const plain = cut.leaf ?? leafHash(cut.bytes!);
    if (this.differs !== null) {
      if (this.after.length <= this.sealed.count + MAX_FOLLOWED_LINES) this.after.push(plain);
    } else if (number <= this.sealed.count && !this.fits(cut, number, plain)) {
      this.differs = { line: number, at: this.offset };
      this.after.push(plain);
    }
    this.offset += cut.length + (ended ? 1 : 0);
    if (number !== this.sealed.count) return;
    this.sealedEnd = this.offset;
    this.sealedEndHasLf = ended;
  }

  /** Whether the line is the sealed one of this number, or its replacement. */
  private fits(cut: CutLine, number: number, plain: Uint8Array): boolean {
    const leaf = this.leafOf(plain, number);
    const sealedLeaf = this.sealed.leaves.at(number - 1);
    const named = this.isNamed(number);
    if (leaf !== null && equal(leaf, sealedLeaf)) {
      if (named) this.unfinished ??= { line: number, at: this.offset };
      return true;
    }
    if (!named || cut.bytes === null) return false;
    if (!equal(cut.bytes, this.replacement(number))) return false;
    this.redactedLines = true;
    return true;
  }

  /** What stands in the place of a redacted line. */
  private replacement(number: number): Uint8Array {
    return utf8(`{"threadseal_redacted":{"line":${number},"leaf":"${hex(this.sealed.leaves.at(number - 1))}"}}`);
  }

  /** The leaf of a line under a number, from its leaf in format 1; null where the salt is gone. */
  private leafOf(plain: Uint8Array, number: number): Uint8Array | null {
    if (this.sealed.format === 1) return plain;
    const salt = this.sealed.salts?.salt(number - 1) ?? null;
    return salt === null ? null : saltedLeaf(salt, plain);
  }

  private isNamed(number: number): boolean {
    return this.statements.some((one) => isInRuns(one, number));
  }

  /** Steps 2 and 4 to 6 of the log, of what was read. */
  conclude(): Differs | null {
    const { report, differs } = this;
    if (this.unfinished !== null) report.downgrade(null, "redaction_unfinished", "warning", { line: this.unfinished.line });
    if (differs !== null) report.downgrade("tampered", this.codeOfEdit(differs.line), "error", { line: differs.line });
    else if (this.lines < this.sealed.count) report.downgrade("truncated", "lines_missing", "error", { line: this.lines });
    else this.judgeEnd();
    return differs;
  }

  /** Step 6. */
  private judgeEnd(): void {
    const { size, final } = this.sealed;
    const { report } = this;
    const gotLf = this.sealedEnd === size + 1 && this.sealedEndHasLf;
    if (this.sealedEnd !== size && !gotLf && !this.redactedLines) {
      report.downgrade("tampered", "size_differs", "error", { bytes: [Math.min(size, this.sealedEnd), this.offset] });
    }
    if (this.offset === this.sealedEnd) return;
    const place: Partial<Place> = { bytes: [this.sealedEnd, this.offset] };
    if (final) report.downgrade("unsigned_tail", "lines_after_final", "error", place);
    else report.downgrade("unsigned_tail", "unsigned_tail", "warning", place);
  }

  // ------------------------------------------------------------------------- naming what was done

  private codeOfEdit(line: number): string {
    if (this.leafOf(this.after.at(0), line) === null && !this.isNamed(line)) return "salt_missing";
    const changed = this.following(line, 1, 1);
    const inserted = this.following(line, 1, 0);
    const deleted = this.following(line, 0, 1);
    const most = Math.max(changed, inserted, deleted);
    const asDeleted = changed < most && deleted === most;
    if ((most === 0 || (asDeleted && this.lines >= this.sealed.count)) && this.isMoved(line)) return "line_moved";
    if (asDeleted) return "line_deleted";
    return changed < most ? "line_inserted" : "line_changed";
  }

  /**
   * How many lines from this one plus `here` on are those sealed from it plus `there` on; 0 where the last
   * sealed line, or the 256th, is not reached.
   */
  private following(line: number, here: number, there: number): number {
    const wanted = Math.min(MAX_FOLLOWED_LINES, this.sealed.count - (line + there) + 1);
    for (let same = 0; same < wanted; same++) {
      const index = here + same;
      if (index >= this.after.length || !this.isSealedAs(index, line + there + same)) return 0;
    }
    return wanted;
  }

  private isSealedAs(index: number, number: number): boolean {
    const plain = this.after.at(index);
    const leaf = this.leafOf(plain, number);
    if (leaf !== null && equal(leaf, this.sealed.leaves.at(number - 1))) return true;
    return this.isNamed(number) && equal(plain, leafHash(this.replacement(number)));
  }

  /** Whether the sealed line is further on in the log, and this line was sealed further on. */
  private isMoved(line: number): boolean {
    let here = false;
    for (let index = 1; index < this.after.length && !here; index++) here = this.isSealedAs(index, line);
    if (!here) return false;
    for (let number = line + 1; number <= this.sealed.count; number++) if (this.isSealedAs(0, number)) return true;
    return false;
  }
}
