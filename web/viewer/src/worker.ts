// The worker: one reads a log and answers about it, another verifies the same bytes, which it takes from the first.

import { type Answer, type Asked, type Engine, type ProofPlace, type Report, withHead } from "./core.js";
import { TYPESCRIPT } from "./engine-ts.js";
import { WASM_PROVER, WEBASSEMBLY, plainTexts, turnsOfLines, useModule } from "./engine-wasm.js";
import { OBSERVED_PROVER } from "./prove.js";
import { recognise } from "./recognise.js";
import { readBodies } from "./read/bodies.js";
import { isProof, proofLines } from "./read/proof-lines.js";
import { plainText } from "./read/plain-text.js";
import { SessionReader } from "./read/session.js";

export type Source = { readonly url: string } | { readonly bytes: Uint8Array };

export type Request =
  | { readonly op: "module"; readonly module: WebAssembly.Module | null }
  | { readonly op: "open"; readonly source: Source; readonly bodies: Uint8Array | null }
  | { readonly op: "more"; readonly url: string; readonly bodies: Uint8Array | null }
  | { readonly op: "full"; readonly i: number }
  | { readonly op: "search"; readonly query: string }
  | { readonly op: "slice"; readonly at: number; readonly end: number }
  | { readonly op: "text" }
  | { readonly op: "plain"; readonly logs: readonly { readonly log: string; readonly bytes: Uint8Array }[] }
  | { readonly op: "turns"; readonly bytes: Uint8Array }
  | { readonly op: "feed"; readonly port: MessagePort }
  | { readonly op: "prove"; readonly asked: Asked; readonly place: ProofPlace }
  | { readonly op: "verify"; readonly asked: Asked; readonly port: MessagePort; readonly size: number };

const READ_BYTES = 1 << 20;
/** The first batch comes soon, so that something is seen; later ones are larger. */
const FIRST_BATCH_BYTES = 64 * 1024;
const BATCH_BYTES = 4 << 20;
/** Of a log of so many bytes all is read again when it grew. */
const MAX_WHOLE_BYTES = 16 << 20;
/** An engine may need a closer look at a record with a fault. */
const MAX_PASSES = 5;

const scope = self as unknown as { postMessage(message: unknown, transfer?: Transferable[]): void; onmessage: ((event: MessageEvent) => void) | null };

let reader: SessionReader | null = null;
let ended = false;
/** The whole of a proof, whose lines are read. */
let proof: Uint8Array | null = null;
let waiting: (() => void)[] = [];
let moduleReady: Promise<void> = Promise.resolve();

scope.onmessage = (event: MessageEvent): void => {
  const { id, request } = event.data as { id: number; request: Request };
  answer(id, request).then(
    // A slice is a copy of its own: cloning it once more would keep it here until it is collected.
    (value) => scope.postMessage({ id, value }, request.op === "slice" ? [(value as Uint8Array).buffer as ArrayBuffer] : []),
    (error: unknown) => scope.postMessage({ id, error: error instanceof Error ? error.message : String(error) }),
  );
};

async function answer(id: number, request: Request): Promise<unknown> {
  switch (request.op) {
    case "module":
      moduleReady = useModule(request.module);
      return moduleReady;
    case "open":
      return open(id, request.source, request.bodies).catch(stop);
    case "more":
      return more(id, request.url, request.bodies).catch(stop);
    case "full":
      return reader?.full(request.i) ?? null;
    case "search": {
      const start = performance.now();
      const found = reader?.search(request.query) ?? { items: new Uint32Array() };
      return { ...found, milliseconds: performance.now() - start };
    }
    case "slice":
      return reader?.slice(request.at, request.end) ?? new Uint8Array();
    case "text":
      return reader === null ? "" : plainText(reader);
    case "plain":
      await moduleReady;
      return plainTexts(request.logs);
    case "turns":
      await moduleReady;
      return turnsOfLines(request.bytes);
    case "feed":
      return feed(request.port);
    case "prove":
      return prove(request.asked, request.place);
    case "verify":
      await moduleReady;
      return verify(id, request.asked, request.port, request.size);
  }
}

// -------------------------------------------------------------------------------------------- reading

async function open(id: number, source: Source, beside: Uint8Array | null): Promise<{ size: number; etag: string | null }> {
  ended = false;
  proof = null;
  const bodies = beside === null ? null : readBodies(beside);
  if ("bytes" in source) {
    // Of a proof its lines are shown, and all of it is judged.
    if (isProof(source.bytes)) proof = source.bytes;
    const bytes = proof === null ? source.bytes : new TextEncoder().encode(`${proofLines(source.bytes).join("\n")}\n`);
    reader = new SessionReader(bytes.length, bodies);
    for (let at = 0; at < bytes.length; at += READ_BYTES) {
      reader.push(bytes.subarray(at, at + READ_BYTES));
      if (at % BATCH_BYTES === 0) send(id);
    }
    return ending(id, null);
  }
  const response = await fetch(source.url);
  if (!response.ok || response.body === null) throw new Error(`the log cannot be read: ${response.status} ${response.statusText}`);
  reader = new SessionReader(Number(response.headers.get("content-length")) || undefined, bodies);
  await take(id, response.body);
  return ending(id, response.headers.get("etag"));
}

/** Takes what was added to a log that grows. */
async function more(id: number, url: string, beside: Uint8Array | null): Promise<{ size: number; etag: string | null }> {
  if (reader === null) throw new Error("no log is open");
  if (reader.size <= MAX_WHOLE_BYTES) return moreOrOther(id, url, beside, reader);
  const response = await fetch(url, { headers: { range: `bytes=${reader.size}-` } });
  if (response.status === 416) return { size: reader.size, etag: null };
  if (response.status !== 206 || response.body === null) return open(id, { url }, beside);
  ended = false;
  if (beside !== null) reader.bodies = readBodies(beside);
  reader.resume();
  await take(id, response.body);
  return ending(id, response.headers.get("etag"));
}

/** The same where all of it is soon read: what was read before may have been changed, too. */
async function moreOrOther(id: number, url: string, beside: Uint8Array | null, held: SessionReader): Promise<{ size: number; etag: string | null }> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the log cannot be read: ${response.status} ${response.statusText}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const etag = response.headers.get("etag");
  const known = held.slice(0, held.size);
  if (bytes.length < known.length || known.some((byte, at) => byte !== bytes[at])) return { ...(await open(id, { bytes }, beside)), etag };
  ended = false;
  if (beside !== null) held.bodies = readBodies(beside);
  held.resume();
  held.push(bytes.subarray(known.length));
  return ending(id, etag);
}

async function take(id: number, body: ReadableStream<Uint8Array>): Promise<void> {
  let next = FIRST_BATCH_BYTES;
  for (const stream = body.getReader(); ;) {
    const { done, value } = await stream.read();
    if (done) return;
    // A large part is read in pieces, so that the first items come soon.
    for (let at = 0; at < value.length; at += FIRST_BATCH_BYTES) {
      reader!.push(value.subarray(at, at + FIRST_BATCH_BYTES));
      if (reader!.size < next) continue;
      next = reader!.size + BATCH_BYTES;
      send(id);
    }
    wake();
  }
}

function ending(id: number, etag: string | null): { size: number; etag: string | null } {
  reader!.finish();
  ended = true;
  send(id);
  wake();
  return { size: reader!.size, etag };
}

function send(id: number): void {
  scope.postMessage({ id, batch: reader!.batch() });
}

/** Nothing more comes: ends the waiting for bytes. */
function stop(error: unknown): never {
  ended = true;
  wake();
  throw error;
}

function wake(): void {
  for (const one of waiting) one();
  waiting = [];
}

/** Gives bytes to who verifies, from the place that is asked for; an empty part is the end. */
function feed(port: MessagePort): void {
  port.onmessage = async (event: MessageEvent<number>) => {
    const at = event.data;
    while ((reader === null || reader.size <= at) && !ended) await new Promise<void>((resolve) => waiting.push(resolve));
    const part = proof?.slice(at, at + READ_BYTES) ?? reader?.slice(at, at + READ_BYTES) ?? new Uint8Array();
    port.postMessage(part, [part.buffer]);
  };
}

async function prove(asked: Asked, place: ProofPlace): Promise<Uint8Array> {
  if (reader === null) throw new Error("no log is open");
  const log = reader.slice(0, reader.size);
  await moduleReady;
  const kind = recognise(log, asked.name, asked.seals);
  const own = kind === "observed" ? await OBSERVED_PROVER.prove(asked, log, place).catch((error: Error) => error) : null;
  if (own instanceof Uint8Array) return own;
  return WASM_PROVER.prove(asked, log, place).catch((error: Error) => {
    throw own instanceof Error ? own : error;
  });
}

// ---------------------------------------------------------------------------------------- verifying

async function verify(id: number, asked: Asked, port: MessagePort, size: number): Promise<Answer[]> {
  let resolvePart: ((part: Uint8Array) => void) | null = null;
  port.onmessage = (event: MessageEvent<Uint8Array>) => resolvePart?.(event.data);
  const read = (at: number): Promise<Uint8Array> => new Promise((resolve) => {
    resolvePart = resolve;
    port.postMessage(at);
  });
  const runs = (await Promise.all([WEBASSEMBLY, TYPESCRIPT].map((engine) => EngineRun.begin(engine, asked)))).filter((run) => run !== null);
  let pending = runs;
  for (let pass = 0; pending.length > 0 && pass < MAX_PASSES; pass++) {
    let at = 0;
    for (;;) {
      const part = await read(at);
      if (part.length === 0) break;
      at += part.length;
      for (const run of pending) await run.push(part);
      scope.postMessage({ id, progress: { bytes: at, size: Math.max(size, at), pass } });
    }
    for (const run of pending) await run.finish();
    pending = pending.filter((run) => run.again);
  }
  port.close();
  return runs.map((run) => run.answer(asked));
}

/** One engine and its answer; an error of one does not stop the other. */
class EngineRun {
  again = false;
  private report: Report | null = null;
  private error: string | null = null;
  private time = 0;

  private constructor(private readonly engine: Engine, private readonly run: Awaited<ReturnType<Engine["begin"]>>, error: string | null) {
    this.error = error;
  }

  static async begin(engine: Engine, asked: Asked): Promise<EngineRun | null> {
    try {
      const run = await engine.begin(asked);
      return run === null ? null : new EngineRun(engine, run, null);
    } catch (error) {
      return new EngineRun(engine, null, messageOf(error));
    }
  }

  push(part: Uint8Array): Promise<void> {
    return this.timed(() => this.run!.push(part));
  }

  finish(): Promise<void> {
    return this.timed(async () => {
      this.report = await this.run!.finish();
      this.again = this.report === null;
    });
  }

  answer(asked: Asked): Answer {
    const error = this.error ?? (this.report === null ? "the record needs another look, which did not end" : null);
    return { engine: this.engine.name, report: this.report === null ? null : withHead(this.report, asked), error, milliseconds: this.time };
  }

  private async timed(work: () => Promise<void>): Promise<void> {
    if (this.error !== null || this.run === null) return;
    const start = performance.now();
    try {
      await work();
    } catch (error) {
      this.error = messageOf(error);
      this.again = false;
    }
    this.time += performance.now() - start;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
