// One process of `threadseal ledger append --each` for all ledgers of a folder.
//
//   lines of any ledger ─► the command ─► an answer to what waited: its last line, and the new end of each ledger
//
// It starts with the first line, and ends when it was idle or at `close`. After an error the next line starts another.

import { createInterface } from "node:readline";
import { printedError, Running, type CommandOptions } from "./command.js";

export interface AppenderOptions extends CommandOptions {
  /** The name of the signing key. By default `self`. */
  key?: string;
}

/** How long a process waits for the next line. */
const MAX_IDLE_MS = 10_000;

/** Lines of one ledger that wait until the command has stored the last of them. */
interface Waiting {
  run: string;
  last: number;
  records: number;
  resolve: (records: number) => void;
  reject: (error: unknown) => void;
}

interface Answer {
  input?: number;
  runs: { run: string; records: number }[];
}

/** Appends to the ledgers of one folder. */
export class Appender {
  readonly #folder: string;
  readonly #options: AppenderOptions;
  #running: Running | undefined;
  #waiting: Waiting[] = [];
  #sent = 0;
  #idle: ReturnType<typeof setTimeout> | undefined;

  constructor(folder: string, options: AppenderOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  /** Appends lines, which name their run; the number of records of the ledger when they are durable. */
  append(run: string, lines: readonly string[]): Promise<number> {
    const running = this.#running ?? this.#start();
    clearTimeout(this.#idle);
    hold(running, true);
    this.#sent += lines.length;
    const last = this.#sent;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ run, last, records: 0, resolve, reject });
      running.child.stdin.write(`${lines.join("\n")}\n`);
    });
  }

  /** Ends the process, when what waits is durable. */
  async close(): Promise<void> {
    const running = this.#running;
    if (running === undefined) return;
    hold(running, true);
    running.child.stdin.end();
    await running.closed;
  }

  #start(): Running {
    const { key, passphraseFile } = this.#options;
    const args = ["ledger", "append", "--json", "--each", "--sign"];
    if (key !== undefined) args.push(`--key=${key}`);
    if (passphraseFile !== undefined) args.push(`--passphrase-file=${passphraseFile}`);
    const running = new Running([...args, this.#folder], this.#options);
    this.#running = running;
    this.#sent = 0;
    let printed = "";
    createInterface({ input: running.child.stdout, crlfDelay: Infinity }).on("line", (line) => {
      const answer = JSON.parse(line) as Answer;
      if (answer.input === undefined) printed = line;
      else this.#settle(running, answer.input, answer.runs);
    });
    const end = (error: unknown): void => {
      if (this.#running !== running) return;
      this.#running = undefined;
      clearTimeout(this.#idle);
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const { reject } of waiting) reject(error);
    };
    running.closed.then((exit) => end(printedError(printed, running, exit) ?? running.failure(exit)), end);
    return running;
  }

  #settle(running: Running, input: number, runs: Answer["runs"]): void {
    for (const { run, records } of runs) {
      for (const waiting of this.#waiting) if (waiting.run === run) waiting.records = records;
    }
    while (this.#waiting[0] !== undefined && this.#waiting[0].last <= input) {
      const { records, resolve } = this.#waiting.shift() as Waiting;
      resolve(records);
    }
    if (this.#waiting.length > 0) return;
    hold(running, false);
    this.#idle = setTimeout(() => {
      this.#running = undefined;
      running.child.stdin.end();
    }, MAX_IDLE_MS);
    this.#idle.unref();
  }
}

/** A process that nothing waits for does not keep this one running. */
function hold({ child }: Running, isHeld: boolean): void {
  const streams: unknown[] = [child, child.stdin, child.stdout, child.stderr];
  for (const stream of streams as { ref?: () => void; unref?: () => void }[]) {
    if (isHeld) stream.ref?.();
    else stream.unref?.();
  }
}
