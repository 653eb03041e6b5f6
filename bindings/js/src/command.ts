// The command `threadseal` as a child process.

import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { CommandError, ThreadSealError, VerdictError } from "./errors.js";
import type { FileReport } from "./report.js";

export interface CommandOptions {
  /** The program, and arguments before ours. By default `threadseal` on the path. */
  command?: string | readonly string[];
  /** The home with keys, trusted keys and known heads. By default that of the command. */
  home?: string;
  /** File with the passphrase of the private key in its first line. */
  passphraseFile?: string;
  /** Folder of relative paths. By default that of this process. */
  cwd?: string;
  /** More variables of the environment. */
  env?: Record<string, string>;
}

/** Bytes of standard error that an error keeps. */
const MAX_STDERR_BYTES = 16 << 10;

/** A process of the command, with the end of its standard error. */
export class Running {
  readonly child: ChildProcessWithoutNullStreams;
  /** Its exit code when it and its output have ended; null after a signal. */
  readonly closed: Promise<number | null>;
  #stderr = "";

  constructor(args: readonly string[], options: CommandOptions) {
    const [program = "threadseal", ...first] = [options.command ?? "threadseal"].flat();
    const home = options.home === undefined ? [] : ["--home", options.home];
    const env = { ...process.env, ...options.env };
    this.child = spawn(program, [...first, ...home, ...args], { cwd: options.cwd, env, stdio: "pipe" });
    this.closed = new Promise((resolve, reject) => {
      this.child.once("error", (cause: NodeJS.ErrnoException) => reject(unstarted(program, cause)));
      this.child.once("close", (exit) => resolve(exit));
    });
    // A caller may look at it later, or never.
    this.closed.catch(() => {});
    this.child.stdin.on("error", () => {});
    this.child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-MAX_STDERR_BYTES);
    });
  }

  get stderr(): string {
    return this.#stderr;
  }

  /** The error of a process that ended without its result. */
  failure(exit: number | null): CommandError {
    const last = this.#stderr.trim().split("\n").at(-1) ?? "";
    const why = last.replace(/^threadseal: /, "") || (exit === null ? "it was killed" : `exit ${exit}`);
    return new CommandError(`the command threadseal failed: ${why}`, { exit, stderr: this.#stderr });
  }
}

function unstarted(program: string, cause: NodeJS.ErrnoException): CommandError {
  const hint = "install ThreadSeal, or name its command with the option `command`";
  return new CommandError(`cannot start ${program}: ${cause.message}`, { hint, cause });
}

/** What the command printed, and how it ended. */
export interface Output {
  stdout: string;
  exit: number | null;
  running: Running;
}

/** Runs the command to its end. */
export async function runToEnd(args: readonly string[], options: CommandOptions, input = ""): Promise<Output> {
  const running = new Running(args, options);
  const parts: Buffer[] = [];
  running.child.stdout.on("data", (part: Buffer) => parts.push(part));
  running.child.stdin.end(input);
  const exit = await running.closed;
  return { stdout: Buffer.concat(parts).toString("utf8"), exit, running };
}

interface ErrorOutput {
  schema: "threadseal.error/1";
  message: string;
  report: FileReport | null;
}

/** The error that the command printed as JSON; nothing where the text is another one. */
export function printedError(text: string, running: Running, exit: number | null): ThreadSealError | undefined {
  if (!text.startsWith('{"schema":"threadseal.error/1"')) return undefined;
  const printed = JSON.parse(text) as ErrorOutput;
  if (printed.report !== null) return new VerdictError(printed.message, printed.report);
  return new CommandError(printed.message, { exit, stderr: running.stderr });
}
