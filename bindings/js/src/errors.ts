// Errors, by what the caller does next. A fault of a record is no error of `verify`: it is in the report.

import type { FileReport } from "./report.js";

/** The base of all errors of this package. `hint` names the next step, where there is one. */
export class ThreadSealError extends Error {
  override readonly name: string = "ThreadSealError";
  readonly hint: string | null;

  constructor(message: string, options: { hint?: string | null | undefined; cause?: unknown } = {}) {
    const hint = options.hint ?? null;
    const text = hint === null || message.includes("; hint: ") ? message : `${message}; hint: ${hint}`;
    super(text, options.cause === undefined ? undefined : { cause: options.cause });
    this.hint = hint;
  }
}

/** An argument is wrong: correct the call. */
export class InputError extends ThreadSealError {
  override readonly name = "InputError";
}

/** A record has not the verdict that the call needs: do not rely on it. `report` has the reason. */
export class VerdictError extends ThreadSealError {
  override readonly name = "VerdictError";
  readonly report: FileReport;

  constructor(message: string, report: FileReport) {
    const bad = report.verdict;
    super(message, { hint: bad === "unknown_signer" ? "give the key of its signer as `trust`" : "see `report.findings`" });
    this.report = report;
  }
}

/** Data that a framework loaded is not what was sealed: do not use it. */
export class StateError extends ThreadSealError {
  override readonly name = "StateError";
}

/** The command `threadseal` is missing, failed or ended: `exit` and `stderr` have what it left. */
export class CommandError extends ThreadSealError {
  override readonly name = "CommandError";
  readonly exit: number | null;
  readonly stderr: string;

  constructor(message: string, options: { hint?: string | null; exit?: number | null; stderr?: string; cause?: unknown } = {}) {
    super(message, options);
    this.exit = options.exit ?? null;
    this.stderr = options.stderr ?? "";
  }
}

/** The recorder refused one line, which is not in the record. `code` is one of record-protocol.md §4. */
export class RefusedLineError extends ThreadSealError {
  override readonly name = "RefusedLineError";
  readonly code: string;

  constructor(code: string, why: string, hint: string | null) {
    super(`the recorder refused a line: ${why} [${code}]`, { hint });
    this.code = code;
  }
}
