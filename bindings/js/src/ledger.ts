// One signed ledger for each thread of a framework, through `threadseal ledger` (spec/ledger.md).
//
//   started ─► the store of the framework ─► completed     a process that dies between them leaves an open step
//   appender.ts                                            one process appends to the ledgers of all threads
//
// A ledger is verified once, when a process first needs it. What this process appends it knows; of what another process
// appended, the whole is verified again.

import { createHash, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readFile, readdir } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";
import type { Appender, AppenderOptions } from "./appender.js";
import { printedError, runToEnd } from "./command.js";
import { verify } from "./core.js";
import { CommandError, StateError } from "./errors.js";
import { Gate } from "./gate.js";
import { Report, type ReportFields } from "./report.js";

/** What a step does. Its payload names what was stored. */
export interface Effect {
  type: string;
  payload: Record<string, unknown>;
}

export type Status = "started" | "completed" | "failed";

/** A record of a ledger that verified. */
export interface Step {
  id: string;
  status: Status;
  /** That of the record that began the step. */
  effect: Effect;
}

/** Ledgers that change while they are read so often are given up. */
const MAX_READS = 20;
/** The most bytes of a thread's id that names its ledger itself. */
const MAX_PLAIN_RUN_BYTES = 100;

/** The ledger of one thread, and the state that its steps make. */
export class ThreadLedger<State> {
  readonly #folder: string;
  readonly #thread: string;
  readonly #run: string;
  readonly #options: AppenderOptions;
  readonly #appender: Appender;
  readonly #begin: () => State;
  readonly #apply: (state: State, step: Step) => void;
  #state: State | undefined;
  #records = 0;
  /** Bytes of the file whose steps are in the state. */
  #bytes = 0;
  /** Lines of ours after these bytes, in order. */
  #own: string[] = [];
  #pending: { line: string; step: Step; resolve: () => void; reject: (error: unknown) => void }[] = [];
  #turn: Promise<unknown> = Promise.resolve();
  readonly #gate = new Gate();

  constructor(folder: string, thread: string, appender: Appender, options: AppenderOptions, begin: () => State, apply: (state: State, step: Step) => void) {
    this.#folder = path.resolve(options.cwd ?? ".", folder);
    this.#thread = thread;
    this.#run = runOf(thread);
    this.#appender = appender;
    this.#options = options;
    this.#begin = begin;
    this.#apply = apply;
  }

  /** Does nothing wait for it? */
  get isIdle(): boolean {
    return this.#pending.length === 0 && this.#gate.isIdle;
  }

  get #file(): string {
    return path.join(this.#folder, fileOf(this.#thread));
  }

  /** The state of all steps so far.
   *
   * @throws VerdictError where the ledger is not verified. */
  state(): Promise<State> {
    return this.#exclusively(() => this.#current());
  }

  /** Appends a step that begins, does the work, and appends that it ended. Other steps of this process may run meanwhile. */
  step<T>(effect: Effect, work: (state: State) => Promise<T>): Promise<T> {
    return this.#gate.keeping(() => this.#step(effect, work));
  }

  /** The same of steps that delete, or that depend on it that none does: no other one of this process runs meanwhile. */
  alone<T>(work: (step: ThreadLedger<State>["step"]) => Promise<T>): Promise<T> {
    return this.#gate.alone(() => work((effect, body) => this.#step(effect, body)));
  }

  async #step<T>(effect: Effect, work: (state: State) => Promise<T>): Promise<T> {
    const state = await this.state();
    const id = randomUUID();
    await this.#append({ id, status: "started", effect });
    let result: T;
    try {
      result = await work(state);
    } catch (error) {
      await this.#append({ id, status: "failed", effect });
      throw error;
    }
    await this.#append({ id, status: "completed", effect });
    return result;
  }

  #exclusively<T>(body: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(body);
    this.#turn = done.catch(() => {});
    return done;
  }

  async #current(): Promise<State> {
    if (this.#state !== undefined && await this.#isCurrent()) return this.#state;
    for (let left = MAX_READS; left > 0; left -= 1) {
      const state = await this.#read(left === 1);
      if (state !== undefined) return (this.#state = state);
    }
    throw new StateError(`the ledger of run ${this.#run} changes while it is read`, { hint: "try again" });
  }

  /** Are all lines after the known bytes ours? */
  async #isCurrent(): Promise<boolean> {
    const file = await open(this.#file).catch(() => undefined);
    if (file === undefined) return this.#bytes === 0 && this.#own.length === 0;
    try {
      const { size } = await file.stat();
      if (size < this.#bytes) return false;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size - this.#bytes), 0, size - this.#bytes, this.#bytes);
      const lines = buffer.subarray(0, bytesRead).toString("utf8").split("\n");
      const found = lines.slice(0, -1).map(keyOf);
      if (lines.at(-1) !== "" || found.length !== this.#own.length || found.some((key, at) => key !== this.#own[at])) return false;
      this.#bytes = size;
      this.#own = [];
      return true;
    } finally {
      await file.close();
    }
  }

  /** Verifies the ledger with all that its home knows, and folds its steps; nothing where it changed meanwhile. */
  async #read(isLast = true): Promise<State | undefined> {
    await mkdir(this.#folder, { recursive: true });
    const args = ["ledger", "verify", "--json", this.#folder, `--run=${this.#run}`];
    const { stdout, exit, running } = await runToEnd(args, this.#options);
    const error = stdout === "" ? running.failure(exit) : printedError(stdout, running, exit);
    if (error !== undefined) throw error;
    const report = new Report(JSON.parse(stdout) as ReportFields);
    const [claim] = report.results;
    const isNew = claim?.verdict === "unsigned" && claim.stats.events === 0 && claim.head === null;
    // Of a ledger that begins, the home gets the head when it has its first records.
    if (claim?.verdict === "open" && !isLast) return undefined;
    if (!isNew) report.require();
    const bytes = await readFile(this.#file).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === "ENOENT" && isNew) return undefined;
      throw new CommandError(`cannot read ${this.#file}: ${cause.message}`, { cause });
    });
    if (claim === undefined || (isNew && bytes !== undefined)) return undefined;
    // The bytes that were read are those of the verdict: the same head, by the same keys.
    if (bytes !== undefined) {
      const trust = claim.signers.flatMap(({ did }) => (did === null ? [] : [did]));
      const again = await verify(bytes, { kind: "ledger", name: claim.path, run: this.#run, trust, expectHead: claim.head ?? "", exactHead: true });
      if (again.results[0]?.head !== claim.head) return undefined;
      again.require();
    }
    const state = this.#begin();
    const steps = stepsOf(bytes ?? new Uint8Array());
    for (const step of steps) this.#apply(state, step);
    this.#records = claim.stats.events;
    this.#bytes = bytes?.length ?? 0;
    this.#own = [];
    return state;
  }

  #append(step: Step): Promise<void> {
    const node = step.effect.type;
    const effect = step.status === "started" ? step.effect : { type: step.effect.type };
    const line = JSON.stringify({ run_id: this.#run, step_id: step.id, node, status: step.status, effect });
    return new Promise((resolve, reject) => {
      this.#pending.push({ line, step, resolve, reject });
      void this.#exclusively(() => this.#write());
    });
  }

  /** Writes all steps that wait together. */
  async #write(): Promise<void> {
    const taken = this.#pending;
    this.#pending = [];
    if (taken.length === 0) return;
    try {
      const isNew = this.#records === 0;
      const records = await this.#appendLines(taken.map(({ line }) => line));
      // The first step of a ledger comes after its genesis, which is no step of ours.
      this.#own.push(...(isNew ? ["genesis"] : []), ...taken.map(({ step }) => `${step.id} ${step.status}`));
      const isAlone = records === this.#records + taken.length + (isNew ? 1 : 0);
      this.#records = records;
      const state = this.#state;
      if (!isAlone || state === undefined) this.#state = undefined;
      else for (const { step } of taken) this.#apply(state, step);
      for (const { resolve } of taken) resolve();
    } catch (error) {
      this.#state = undefined;
      for (const { reject } of taken) reject(error);
    }
  }

  async #appendLines(lines: readonly string[]): Promise<number> {
    try {
      return await this.#appender.append(this.#run, lines);
    } catch (error) {
      // A ledger that is gone has a verdict, which shows more.
      if (error instanceof CommandError) await this.#read();
      throw error;
    }
  }
}

/** The ids of the threads whose ledgers are in a folder, each with its file. Nothing of it is verified. */
export async function threadsIn(folder: string): Promise<{ file: string; thread: string }[]> {
  const found: { file: string; thread: string }[] = [];
  for (const file of await readdir(folder).catch(() => [])) {
    if (!/^ledger_.*\.jsonl$/.test(file)) continue;
    const thread = await threadOf(path.join(folder, file));
    if (thread !== undefined) found.push({ file, thread });
  }
  return found;
}

/** The thread that the first step of a ledger names; nothing where it has none yet. */
async function threadOf(file: string): Promise<string | undefined> {
  const input = createReadStream(file);
  try {
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
      const thread = threadIn(line);
      if (thread !== undefined) return thread;
    }
    return undefined;
  } finally {
    input.destroy();
  }
}

function threadIn(line: string): string | undefined {
  try {
    const { thread_id: thread } = (JSON.parse(line) as Line).effect.payload;
    return typeof thread === "string" ? thread : undefined;
  } catch {
    return undefined;
  }
}

/** The file of the ledger of a thread. */
export function fileOf(thread: string): string {
  return `ledger_${runOf(thread)}.jsonl`;
}

/** A name of a file cannot hold each id of a thread. An id that is such a name of another thread is hashed, too. */
function runOf(thread: string): string {
  const isName = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(thread) && thread.length <= MAX_PLAIN_RUN_BYTES;
  const isPlain = isName && !/^sha256-[0-9a-f]{64}$/i.test(thread);
  return isPlain ? thread : `sha256-${createHash("sha256").update(thread).digest("hex")}`;
}

interface Line {
  step_id: string;
  status: Status;
  effect: Effect;
}

/** The step and the status of a line of a ledger. */
function keyOf(text: string): string {
  try {
    const { step_id: id, status, effect } = JSON.parse(text) as Line;
    return effect.type === "threadseal.genesis" ? "genesis" : `${id} ${status}`;
  } catch {
    return "";
  }
}

/** The steps of a ledger that verified. */
function stepsOf(bytes: Uint8Array): Step[] {
  const begun = new Map<string, Effect>();
  const steps: Step[] = [];
  for (const text of new TextDecoder("utf-8", { fatal: true }).decode(bytes).split("\n")) {
    if (text === "") continue;
    const { step_id: id, status, effect } = JSON.parse(text) as Line;
    if (effect.type === "threadseal.genesis") continue;
    if (status === "started") begun.set(id, effect);
    const first = begun.get(id);
    if (first !== undefined) steps.push({ id, status, effect: first });
  }
  return steps;
}
