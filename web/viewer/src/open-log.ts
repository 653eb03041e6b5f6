// One log that is open in the page: its items as they come, its seals, and the answers of the verifiers.

import { type Assets, Client, type Progress, type Timed } from "./client.js";
import type { Answer, Asked, ProofPlace, Report, Trusted } from "./core.js";
import type { Change, LogFiles } from "./home.js";
import type { Facts } from "./read/part.js";
import { type SealFile, type SealMark, readSealFile } from "./read/seals.js";
import type { Batch, Exchange, Full, Item } from "./read/session.js";
import { NO_TURNS, Turns } from "./turns.js";
import { isEvidence } from "./ui/verdict.js";

/** Milliseconds by which a line may be older than the one before it, unmentioned. */
const MAX_SKEW = 2000;
/** Milliseconds that are left to the first turns. */
const FIRST_TURNS = 150;
/** Turns of a larger log are numbered by the page alone: the core holds all of it for that. */
const MAX_NUMBERED_BYTES = 256 * 2 ** 20;
/** Between two verifications of a log that grows: at least so long, and so many times as long as the last one took. */
const MIN_PAUSE = 100;
const PAUSES = 3;

export type Standing = "sealed" | "unknown" | "unsealed" | "changed" | "doubted" | "redacted" | "pending" | "none";

export interface Listener {
  items(): void;
  verdict(): void;
  progress(progress: Progress): void;
}

export class OpenLog {
  readonly items: Item[] = [];
  exchanges: readonly Exchange[] = [];
  facts: Facts = {};
  format = "unknown";
  lines = 0;
  size = 0;
  isRead = false;
  answers: readonly Answer[] = [];
  isVerifying = false;
  /** Numbers of turns; `isNumbered`: the core gave them, or cannot. */
  turns = NO_TURNS;
  isNumbered = false;
  sealFile: SealFile | null = null;
  /** Seals in the order of their lines. */
  seals: readonly SealMark[] = [];
  error: string | null = null;
  listener: Listener | null = null;
  private reader: Client | null = null;
  private verifier: Client | null = null;
  private run = 0;
  private timer = 0;
  private isStale = false;
  private took = 0;
  /** Of the bytes that were read, and of what is beside them. */
  private etag: string | null = null;
  private beside: string | null = null;
  private sealBytes: Uint8Array | null = null;
  private bodies: Uint8Array | null = null;
  private besideError: string | null = null;
  /** What the answers say of lines: changed ones, and up to where all is good. */
  private changedLines = new Set<number>();
  private until: number | null = null;
  /** Items out of the order of their times, and the newest time before. */
  private readonly late = new Set<number>();
  private newest = 0;

  constructor(readonly name: string, private files: LogFiles, private trusted: Trusted, private readonly assets: Assets) {}

  async open(): Promise<void> {
    this.reader = await Client.begin(this.assets);
    // Bodies are needed for the first words; a fault of theirs is that of the verification.
    const bodies = await this.files.bodies.catch(() => null);
    const opened = this.reader.open(this.files.source, bodies, (batch) => this.take(batch));
    const verified = this.verifyWithSeals();
    try {
      const { size, etag } = await opened;
      this.size = size;
      this.etag = etag;
      this.isRead = true;
      this.listener?.items();
      await this.number();
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
      this.listener?.items();
    }
    await verified;
  }

  /** The seals come while the first turns are already shown. */
  private async verifyWithSeals(): Promise<void> {
    await this.readBeside();
    this.listener?.items();
    await this.verify();
  }

  /** What cannot be read is not taken for absent: then there is no verdict. */
  private async readBeside(): Promise<void> {
    this.besideError = null;
    try {
      [this.sealBytes, this.bodies] = await Promise.all([this.files.seals, this.files.bodies]);
    } catch (error) {
      this.besideError = error instanceof Error ? error.message : String(error);
    }
    this.sealFile = this.sealBytes === null ? null : readSealFile(this.sealBytes);
    if (this.sealFile === null) this.nativeSeals();
    else this.seals = this.sealFile.seals;
  }

  close(): void {
    this.listener = null;
    clearTimeout(this.timer);
    this.reader?.end();
    this.verifier?.end();
  }

  /** Does the disk have something else than what was read? */
  differs(change: Change): boolean {
    this.beside ??= change.beside;
    return change.bytes !== this.size || this.isRewritten(change) || change.seals !== (this.sealBytes?.length ?? 0) || change.beside !== this.beside;
  }

  /** Other bytes than those that were read, in their place. */
  private isRewritten(change: Change): boolean {
    return this.etag !== null && this.etag !== `"${change.stamp}"`;
  }

  /** The log, or what is beside it, changed on the disk. A log that did not grow is read anew. */
  async grow(files: LogFiles, change: Change): Promise<void> {
    this.files = files;
    if ("url" in files.source) {
      const bodies = await files.bodies.catch(() => null);
      const take = (batch: Batch): void => this.take(batch);
      const isAnew = change.bytes < this.size || (change.bytes === this.size && this.isRewritten(change));
      if (isAnew) this.stopVerifying();
      const read = await (isAnew ? this.reader!.open(files.source, bodies, take) : this.reader!.more(files.source.url, bodies, take));
      this.size = read.size;
      this.etag = read.etag ?? this.etag;
    }
    this.beside = change.beside;
    await this.number();
    await this.readBeside();
    this.listener?.items();
    // A last line that was read in part, results and seals change rows that are there.
    this.listener?.verdict();
    this.verifySoon();
  }

  /** The numbers of turns, by the core, in a worker of their own: the reader goes on answering. */
  private async number(): Promise<void> {
    const numbers = await this.coreNumbers().catch(() => null);
    this.turns = new Turns(numbers ?? new Uint32Array(), this.format);
    this.isNumbered = true;
    this.listener?.items();
    this.listener?.verdict();
  }

  private async coreNumbers(): Promise<Uint32Array | null> {
    if (this.size > MAX_NUMBERED_BYTES) return null;
    const [bytes, client] = await Promise.all([this.reader!.slice(0, this.size), Client.begin(this.assets)]);
    try {
      await client.module(await this.assets.module());
      return await client.turns(bytes);
    } finally {
      client.end();
    }
  }

  /** A long log that grows all the time must not keep the machine busy. */
  private verifySoon(): void {
    this.isStale = this.isVerifying;
    if (this.isVerifying || this.timer !== 0) return;
    this.timer = window.setTimeout(() => void this.verify(), Math.max(MIN_PAUSE, PAUSES * this.took));
  }

  /** The bytes that are being judged are no longer those of the log. */
  private stopVerifying(): void {
    this.run++;
    this.verifier?.end();
    this.isVerifying = false;
  }

  async trust(trusted: Trusted): Promise<void> {
    this.trusted = trusted;
    await this.verify();
  }

  get trustedKeys(): Trusted {
    return this.trusted;
  }

  full(i: number): Promise<Full | null> {
    return this.reader!.full(i);
  }

  search(query: string): Promise<Timed> {
    return this.reader!.search(query);
  }

  text(): Promise<string> {
    return this.reader!.text();
  }

  slice(at: number, end: number): Promise<Uint8Array> {
    return this.reader!.slice(at, end);
  }

  /** A proof of the turn of an item, and of its result; checked here before it is given out. */
  async prove(item: Item): Promise<{ bytes: Uint8Array; answers: Answer[] }> {
    const turn = this.turns.linked(item);
    const own = this.turns.lines(turn) ?? [item.line, item.line];
    const lines = this.format === "native" ? [item.line, item.line] as const : [Math.min(own[0], item.line), Math.max(own[1], item.line, item.resultLine)] as const;
    const place: ProofPlace = { turn, lines };
    await this.reader!.module(await this.assets.module());
    const bytes = await this.reader!.prove(this.asked(), place);
    const answers = await verifyBytes(this.assets, { ...this.asked(), name: "proof.turn-proof", seals: null, bodies: null }, bytes);
    return { bytes, answers };
  }

  async verify(): Promise<void> {
    const run = ++this.run;
    const begun = performance.now();
    clearTimeout(this.timer);
    this.timer = 0;
    this.isStale = false;
    this.isVerifying = true;
    this.listener?.verdict();
    this.verifier?.end();
    const client = await Client.begin(this.assets);
    // The first turns are shown before the work on all of them begins.
    if (this.items.length === 0 && !this.isRead) await new Promise((resolve) => setTimeout(resolve, FIRST_TURNS));
    if (run !== this.run) return client.end();
    this.verifier = client;
    const channel = new MessageChannel();
    try {
      if (this.besideError !== null) throw new Error(`what belongs to the log cannot be read: ${this.besideError}`);
      await client.module(await this.assets.module());
      // It ends with the page.
      this.reader!.feed(channel.port1).catch(() => undefined);
      const answers = await client.verify(this.asked(), channel.port2, this.size, (progress) => this.listener?.progress(progress));
      if (run !== this.run) return;
      this.answers = answers;
    } catch (error) {
      if (run !== this.run) return;
      this.answers = [{ engine: "page", report: null, error: error instanceof Error ? error.message : String(error), milliseconds: 0 }];
    } finally {
      client.end();
    }
    this.isVerifying = false;
    this.took = performance.now() - begun;
    this.readPlaces();
    this.listener?.verdict();
    if (this.isStale) this.verifySoon();
  }

  /** The report that the page shows in detail: that of the first engine that has one. */
  get report(): Report | null {
    return this.answers.find((one) => one.report !== null)?.report ?? null;
  }

  private asked(): Asked {
    const { bodiesUnread, head } = this.files;
    return { name: this.fileName(), seals: this.sealBytes, bodies: this.bodies, bodiesUnread, trust: this.trusted, head };
  }

  /** The rules of formats look at the ending of a name. */
  private fileName(): string {
    const last = this.name.split("/").at(-1) ?? this.name;
    return /\.[\w-]{2,12}$/.test(last) ? last : `${last.replace(/:/g, "-")}.jsonl`;
  }

  private take(batch: Batch): void {
    if (batch.from === 0) {
      this.late.clear();
      this.newest = 0;
    }
    this.items.length = Math.min(this.items.length, batch.from);
    for (const item of batch.items) {
      this.items.push(item);
      if (item.time === null) continue;
      if (item.time + MAX_SKEW < this.newest) this.late.add(item.i);
      else this.newest = Math.max(this.newest, item.time);
    }
    for (const change of batch.changed) this.items[change.i] = { ...this.items[change.i]!, ...change };
    this.exchanges = batch.exchanges;
    this.facts = batch.facts;
    this.format = batch.format;
    this.lines = batch.lines;
    this.size = Math.max(this.size, batch.bytes);
    if (this.sealFile === null && batch.items.some((item) => item.kind === "seal")) this.nativeSeals();
    this.listener?.items();
  }

  private nativeSeals(): void {
    this.seals = this.items.filter((item) => item.kind === "seal").map((item, seq) => ({ line: item.line, seq, time: item.time, final: false }));
  }

  private readPlaces(): void {
    this.changedLines = new Set();
    this.until = null;
    const report = this.report;
    if (report === null || !isEvidence(report)) return;
    for (const one of report.findings) if (one.severity === "error" && one.line !== null) this.changedLines.add(one.line);
    // What is relied on is what the report vouches for, here as in the words of the verdict.
    this.until = report.trusted_until?.line ?? 0;
  }

  /** What the seals are worth at this item, by the page's own verifiers. */
  standing(item: Item): Standing {
    if (item.kind === "hole") return "redacted";
    const report = this.report;
    if (this.isVerifying && report === null) return "pending";
    if (report === null) return "none";
    const line = item.line;
    if (this.changedLines.has(line) || (item.resultLine > 0 && this.changedLines.has(item.resultLine))) return "changed";
    if (this.until !== null) return line <= this.until && item.resultLine <= this.until ? "sealed" : "doubted";
    if (report.verdict === "unsigned" || report.verdict === "consistent") return "unsealed";
    if (this.sealOf(line) === null || (item.resultLine > 0 && this.sealOf(item.resultLine) === null)) return this.seals.length > 0 ? "unsealed" : report.verdict === "verified" ? "sealed" : "none";
    return report.verdict === "unknown_signer" ? "unknown" : "sealed";
  }

  /** The first seal that covers a line. */
  sealOf(line: number): SealMark | null {
    let low = 0;
    let high = this.seals.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.seals[middle]!.line < line) low = middle + 1;
      else high = middle;
    }
    return this.seals[low] ?? null;
  }

  /** Was an item written after others that are later by their own clock? */
  isLate(item: Item): boolean {
    return this.late.has(item.i);
  }

  /** Why a line is marked as changed. */
  findingAt(item: Item): string | null {
    const found = this.report?.findings.find((one) => one.severity === "error" && one.line !== null && (one.line === item.line || one.line === item.resultLine));
    return found?.code ?? null;
  }
}

/** The answers of all engines about bytes that are in the page. */
export async function verifyBytes(assets: Assets, asked: Asked, bytes: Uint8Array): Promise<Answer[]> {
  const client = await Client.begin(assets);
  const channel = new MessageChannel();
  channel.port1.onmessage = (event: MessageEvent<number>) => {
    const part = bytes.slice(event.data, event.data + (1 << 20));
    channel.port1.postMessage(part, [part.buffer]);
  };
  try {
    await client.module(await assets.module());
    return await client.verify(asked, channel.port2, bytes.length, () => undefined);
  } finally {
    client.end();
    channel.port1.close();
  }
}

/** The plain text of logs, by the core; null where it is not built in. */
export async function plainTextOf(assets: Assets, logs: readonly { readonly log: string; readonly bytes: Uint8Array }[]): Promise<string | null> {
  const client = await Client.begin(assets);
  try {
    await client.module(await assets.module());
    return await client.plain(logs);
  } finally {
    client.end();
  }
}
