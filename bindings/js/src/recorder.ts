// Records events while a program runs, through `threadseal record` (spec/record-protocol.md).

import { createInterface } from "node:readline";
import { printedError, Running, type CommandOptions } from "./command.js";
import { CommandError, InputError, RefusedLineError, ThreadSealError } from "./errors.js";

/** Bytes that wait for the command before `append` refuses: the caller awaited nothing. */
export const MAX_WAITING_BYTES = 64 << 20;

export type Ending = "completed" | "error" | "cancelled" | "suspended";

export interface RecorderOptions extends CommandOptions {
  /** The file of the record, or STORE#NAME. By default the thread id with `.jsonl`, each `/` replaced by `-`. */
  file?: string;
  /** The directive that the thread follows, for line 1. */
  directive?: string;
  /** The model that the thread asks, for line 1. */
  model?: string;
  /** Capabilities of the thread, for line 1. */
  capabilities?: readonly string[];
  /** Limits of the thread, for line 1. */
  limits?: Record<string, unknown>;
  /** Anything else for line 1. */
  meta?: Record<string, unknown>;
  /** Commit of the workspace, for line 1. */
  workspace?: string;
  /** Where long and sensitive texts are: in the record, or beside it, so that `threadseal redact` can drop them. */
  bodies?: "inline" | "detached";
  /** Seal after this many lines without a seal. By default 1,000. */
  sealEvery?: number;
  /** Seal when a line is without a seal for so many seconds. By default 10. */
  sealAfter?: number;
  /** The name of the signing key. By default `self`. */
  key?: string;
}

export interface ResumeOptions extends RecorderOptions {
  /** The thread of the new record, where the old one has ended. */
  thread?: string;
  /** Keep the lines after the last seal, marked as unverified for ever. By default they are set aside. */
  adoptTail?: boolean;
}

/** What the command has begun or opened again. */
export interface Recording {
  protocol: string;
  thread: string;
  path: string;
  record: string;
  resumed: boolean;
  continues: string | null;
  lines: number;
  turn: number;
  head: string;
  set_aside: { bytes: [number, number]; path: string } | null;
  adopted: [number, number] | null;
}

/** A seal that is durable and whose head is published. */
export interface Sealed {
  cause: "asked" | "turn" | "count" | "size" | "time" | "opened";
  seq: number;
  lines: number;
  turn: number;
  head: string;
}

export interface Ended {
  status: Ending | null;
  cause: string;
  refused: number;
  seq: number;
  lines: number;
  turn: number;
  head: string;
  exit: number;
  why?: string;
  hint?: string | null;
}

/** A line of ours that waits for its last answer. */
interface Waiting {
  resolve: (answer: unknown) => void;
  reject: (error: Error) => void;
  line?: number;
}

interface Answer {
  recording?: Recording;
  written?: { input: number; line: number };
  durable?: { input: number };
  sealed?: Sealed & { input?: number };
  refused?: { input: number; code: string; why: string; hint: string | null };
  ended?: Ended & { input?: number };
}

/** The recorder of one record. It is the only writer of its record until `end`. */
export class Recorder {
  readonly recording: Recording;
  readonly #running: Running;
  readonly #waiting = new Map<number, Waiting>();
  /** Lines that the pipe has not taken. */
  #lines: string[] = [];
  #waitingBytes = 0;
  #isBlocked = false;
  #readiness: Promise<void> | undefined;
  #isReady: (() => void) | undefined;
  #count = 0;
  /** Inputs below are durable or answered. */
  #oldest = 1;
  #ended: Ended | undefined;
  #failure: Error | undefined;
  #end: Promise<Ended> | undefined;

  private constructor(recording: Recording, running: Running) {
    this.recording = recording;
    this.#running = running;
    running.child.stdin.on("drain", () => {
      this.#isBlocked = false;
      this.#pump();
      if (!this.#isBlocked) this.#wake();
    });
  }

  /** Begins a record of a thread. */
  static start(thread: string, options: RecorderOptions = {}): Promise<Recorder> {
    return Recorder.#open([`--thread=${thread}`], options);
  }

  /** Continues a record: a path, STORE#NAME, or the id of its thread. It is verified under its lock.
   *
   * @throws VerdictError where the record may not be continued: it was changed, cut, rolled back, or is of another. */
  static resume(record: string, options: ResumeOptions = {}): Promise<Recorder> {
    const args = [`--resume=${record}`];
    if (options.thread !== undefined) args.push(`--thread=${options.thread}`);
    if (options.adoptTail === true) args.push("--adopt-tail");
    return Recorder.#open(args, options);
  }

  static async #open(args: string[], options: RecorderOptions): Promise<Recorder> {
    const running = new Running(["record", "--json", ...args, ...argumentsOf(options)], options);
    const lines = createInterface({ input: running.child.stdout, crlfDelay: Infinity });
    let recorder: Recorder | undefined;
    const begun = new Promise<Recorder>((resolve, reject) => {
      lines.on("line", (line) => {
        if (recorder !== undefined) return recorder.#take(JSON.parse(line) as Answer);
        const answer = JSON.parse(line) as Answer;
        // The first answer is an error instead.
        if (answer.recording === undefined) {
          void running.closed.then((exit) => reject(printedError(line, running, exit) ?? running.failure(exit)));
          return;
        }
        recorder = new Recorder(answer.recording, running);
        resolve(recorder);
      });
      running.closed.then((exit) => {
        // After the reason that a line may have given.
        if (recorder === undefined) setImmediate(() => reject(running.failure(exit)));
        else recorder.#close(exit);
      }, reject);
    });
    return begun;
  }

  /** Appends an event; resolves when it is durable, with the number of its line. Types that readers understand are
   * `cognition_in`, `cognition_out`, `cognition_reasoning`, `tool_call_start` and `tool_call_result`. */
  async append(type: string, payload: Record<string, unknown>): Promise<number> {
    return (await this.#send({ type, payload })) as number;
  }

  /** Resolves when all events before it are durable. */
  async flush(): Promise<void> {
    await this.#send({ flush: true });
  }

  /** Ends the turn and seals all events before it. */
  async seal(): Promise<Sealed> {
    return (await this.#send({ seal: true })) as Sealed;
  }

  /** Resolves when the command takes more events: a caller that awaits no `append` awaits this. */
  get ready(): Promise<void> {
    if (!this.#isBlocked || this.#failure !== undefined) return Promise.resolve();
    this.#readiness ??= new Promise((resolve) => {
      this.#isReady = resolve;
    });
    return this.#readiness;
  }

  /** Ends the record under a final seal. It rejects where the record lacks an event that was sent.
   *
   * Once it is called, later calls give the same end. */
  end(status: Ending = "completed", payload: Record<string, unknown> = {}): Promise<Ended> {
    this.#end ??= this.#finish(status, payload);
    return this.#end;
  }

  async #finish(status: Ending, payload: Record<string, unknown>): Promise<Ended> {
    const ended = (await this.#send({ end: status, payload })) as Ended;
    const exit = await this.#running.closed;
    if (exit === 0 && ended.exit === 0) return ended;
    const why = ended.why ?? (ended.refused > 0 ? `${ended.refused} lines were refused` : `it ended as ${ended.cause}`);
    throw new CommandError(`the record lacks events: ${why}`, {
      exit, stderr: this.#running.stderr, hint: ended.hint ?? "the rejected calls have the reasons",
    });
  }

  #send(line: Record<string, unknown>): Promise<unknown> {
    if (this.#end !== undefined && line.end === undefined) {
      return Promise.reject(new InputError("the record has ended", { hint: "Recorder.resume continues it" }));
    }
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    let text: string;
    try {
      text = `${JSON.stringify(line, exact)}\n`;
    } catch (error) {
      return Promise.reject(error instanceof ThreadSealError ? error : new InputError(String(error), { cause: error }));
    }
    if (this.#waitingBytes + text.length > MAX_WAITING_BYTES) {
      const message = `${MAX_WAITING_BYTES} bytes wait for the recorder`;
      return Promise.reject(new InputError(message, { hint: "await `append` or `ready` before more" }));
    }
    this.#count += 1;
    const input = this.#count;
    const answered = new Promise((resolve, reject) => this.#waiting.set(input, { resolve, reject }));
    this.#lines.push(text);
    this.#waitingBytes += text.length;
    this.#pump();
    return answered;
  }

  /** Gives the pipe what it takes. */
  #pump(): void {
    if (this.#isBlocked || this.#lines.length === 0) return;
    const lines = this.#lines.join("");
    this.#lines = [];
    this.#waitingBytes = 0;
    this.#isBlocked = !this.#running.child.stdin.write(lines);
  }

  #wake(): void {
    this.#isReady?.();
    this.#readiness = undefined;
    this.#isReady = undefined;
  }

  #take(answer: Answer): void {
    if (answer.written !== undefined) {
      const waiting = this.#waiting.get(answer.written.input);
      if (waiting !== undefined) waiting.line = answer.written.line;
    } else if (answer.durable !== undefined) {
      this.#settleUntil(answer.durable.input);
    } else if (answer.sealed !== undefined) {
      const { input, ...sealed } = answer.sealed;
      if (input !== undefined && sealed.cause === "asked") this.#settle(input, sealed);
    } else if (answer.refused !== undefined) {
      const { input, code, why, hint } = answer.refused;
      this.#waiting.get(input)?.reject(new RefusedLineError(code, why, hint));
      this.#waiting.delete(input);
    } else if (answer.ended !== undefined) {
      const { input, ...ended } = answer.ended;
      this.#ended = ended;
      if (input !== undefined && ended.cause === "asked") this.#settle(input, ended);
    }
  }

  /** `durable` is cumulative. */
  #settleUntil(input: number): void {
    for (; this.#oldest <= input; this.#oldest += 1) {
      const waiting = this.#waiting.get(this.#oldest);
      if (waiting === undefined) continue;
      waiting.resolve(waiting.line);
      this.#waiting.delete(this.#oldest);
    }
  }

  #settle(input: number, result: unknown): void {
    this.#waiting.get(input)?.resolve(result);
    this.#waiting.delete(input);
  }

  /** The process is gone: nothing more is promised. */
  #close(exit: number | null): void {
    const ended = this.#ended;
    const message = ended === undefined ? undefined : `the recorder ended as ${ended.cause}: ${ended.why ?? `exit ${ended.exit}`}`;
    this.#failure = message === undefined
      ? this.#running.failure(exit)
      : new CommandError(message, { exit, stderr: this.#running.stderr, hint: ended?.hint ?? "Recorder.resume continues the record" });
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure);
    this.#waiting.clear();
    this.#lines = [];
    this.#wake();
  }
}

/** JSON has no such numbers: they would be recorded as null. */
function exact(name: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new InputError(`the member ${JSON.stringify(name)} is ${value}, which JSON does not have`, { hint: "record a text" });
  }
  return value;
}

function argumentsOf(options: RecorderOptions): string[] {
  const args: string[] = [];
  const add = (flag: string, value: string | number | undefined): void => {
    if (value !== undefined) args.push(`${flag}=${value}`);
  };
  const json = (value: unknown): string | undefined => (value === undefined ? undefined : JSON.stringify(value, exact));
  add("--directive", options.directive);
  add("--model", options.model);
  for (const capability of options.capabilities ?? []) add("--capability", capability);
  add("--limits", json(options.limits));
  add("--meta", json(options.meta));
  add("--workspace", options.workspace);
  add("--bodies", options.bodies);
  add("--seal-every", options.sealEvery);
  add("--seal-after", options.sealAfter);
  add("--key", options.key);
  add("--passphrase-file", options.passphraseFile);
  // A name may begin as an option does.
  if (options.file !== undefined) args.push("--", options.file);
  return args;
}
