// One log that is open in the page: its items as they come, its seals, and the answers of the verifiers.

import { type Assets, Client, type Progress, type Timed } from "./client.js";
import type { Answer, Asked, ProofPlace, Report, Trusted } from "./core.js";
import type { LogFiles } from "./home.js";
import type { Facts } from "./read/part.js";
import { type SealFile, type SealMark, readSealFile } from "./read/seals.js";
import type { Batch, Exchange, Full, Item } from "./read/session.js";
import { isEvidence } from "./ui/verdict.js";

/** Milliseconds that are left to the first turns. */
const FIRST_TURNS = 150;

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
  sealFile: SealFile | null = null;
  /** Seals in the order of their lines. */
  seals: readonly SealMark[] = [];
  error: string | null = null;
  listener: Listener | null = null;
  private reader: Client | null = null;
  private verifier: Client | null = null;
  private run = 0;
  private sealBytes: Uint8Array | null = null;
  /** What the answers say of lines: changed ones, and up to where all is good. */
  private changedLines = new Set<number>();
  private until: number | null = null;

  constructor(readonly name: string, private files: LogFiles, private trusted: Trusted, private readonly assets: Assets) {}

  async open(): Promise<void> {
    this.reader = await Client.begin(this.assets);
    const opened = this.reader.open(this.files.source, (batch) => this.take(batch));
    const verified = this.verifyWithSeals();
    try {
      const { size } = await opened;
      this.size = size;
      this.isRead = true;
      this.listener?.items();
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
      this.listener?.items();
    }
    await verified;
  }

  /** The seals come while the first turns are already shown. */
  private async verifyWithSeals(): Promise<void> {
    this.useSeals(await this.files.seals);
    this.listener?.items();
    await this.verify();
  }

  close(): void {
    this.listener = null;
    this.reader?.end();
    this.verifier?.end();
  }

  /** The log, or its seals, changed on the disk. */
  async grow(files: LogFiles): Promise<void> {
    this.files = files;
    if ("url" in files.source) await this.reader?.more(files.source.url, (batch) => this.take(batch));
    this.useSeals(await files.seals);
    this.listener?.items();
    await this.verify();
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

  bytes(): Promise<Uint8Array> {
    return this.reader!.slice(0, this.size);
  }

  /** A proof of the turn of an item, checked here before it is given out. */
  async prove(item: Item): Promise<{ bytes: Uint8Array; answers: Answer[] }> {
    const same = this.items.filter((one) => one.turn === item.turn && !one.replaced);
    const numbers = same.flatMap((one) => [one.line, ...(one.resultLine > 0 && one.i === item.i ? [one.resultLine] : [])]);
    const isNative = this.format === "native";
    const lines = isNative ? [item.line, item.line] as const : [Math.min(...numbers), Math.max(...same.map((one) => one.line))] as const;
    const place: ProofPlace = { turn: item.turn, lines };
    const bytes = await this.reader!.prove(this.asked(), place);
    const answers = await verifyBytes(this.assets, { ...this.asked(), name: "proof.turn-proof", seals: null, bodies: null }, bytes);
    return { bytes, answers };
  }

  async verify(): Promise<void> {
    const run = ++this.run;
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
      await client.module(await this.assets.module());
      void this.reader!.feed(channel.port1);
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
    this.readPlaces();
    this.listener?.verdict();
  }

  /** The report that the page shows in detail: that of the first engine that has one. */
  get report(): Report | null {
    return this.answers.find((one) => one.report !== null)?.report ?? null;
  }

  private asked(): Asked {
    const { bodies, bodiesUnread } = this.files;
    return { name: this.fileName(), seals: this.sealBytes, bodies, bodiesUnread, trust: this.trusted, head: null };
  }

  /** The rules of formats look at the ending of a name. */
  private fileName(): string {
    const last = this.name.split("/").at(-1) ?? this.name;
    return /\.[\w-]{2,12}$/.test(last) ? last : `${last.replace(/:/g, "-")}.jsonl`;
  }

  private take(batch: Batch): void {
    this.items.length = Math.min(this.items.length, batch.from);
    for (const item of batch.items) this.items.push(item);
    for (const change of batch.changed) this.items[change.i] = { ...this.items[change.i]!, ...change };
    this.exchanges = batch.exchanges;
    this.facts = batch.facts;
    this.format = batch.format;
    this.lines = batch.lines;
    this.size = Math.max(this.size, batch.bytes);
    if (this.sealFile === null && batch.items.some((item) => item.kind === "seal")) this.nativeSeals();
    this.listener?.items();
  }

  private useSeals(bytes: Uint8Array | null): void {
    this.sealBytes = bytes;
    this.sealFile = bytes === null ? null : readSealFile(bytes);
    this.seals = this.sealFile?.seals ?? [];
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
    const first = Math.min(...this.changedLines, Infinity);
    this.until = report.trusted_until?.line ?? (first === Infinity ? 0 : first - 1);
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
