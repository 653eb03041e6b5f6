// What needs a system: files, and the command as a child process. For Node, Deno and Bun.

import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { verify } from "./core.js";
import { InputError } from "./errors.js";
import type { VerifyOptions } from "./question.js";
import type { Report } from "./report.js";

export type { CommandOptions } from "./command.js";
export {
  MAX_WAITING_BYTES, Recorder,
  type Ended, type Ending, type RecorderOptions, type Recording, type ResumeOptions, type Sealed,
} from "./recorder.js";

/** Verifies a file with the files beside it that belong to it: `NAME.seal`, `NAME.head`, and the bodies of a record. It
 * asks no home: what this host remembers of a record, only the command knows. */
export async function verifyFile(path: string, options: VerifyOptions = {}): Promise<Report> {
  const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    throw new InputError(`cannot read ${path}: ${cause.message}`, { cause });
  });
  if (!found.isFile()) throw new InputError(`${path} is no file`, { hint: "threadseal verify takes folders and stores" });
  const beside: VerifyOptions = {};
  const seal = await readBeside(`${path}.seal`);
  const head = await readBeside(`${path}.head`);
  const bodies = path.endsWith(".jsonl") ? await readBeside(path.replace(/jsonl$/, "bodies")) : undefined;
  if (seal !== undefined) beside.seal = seal;
  if (head !== undefined) beside.head = head;
  if (bodies !== undefined) beside.bodies = bodies;
  return verify(() => createReadStream(path, { highWaterMark: 1 << 20 }), { name: path, ...beside, ...options });
}

async function readBeside(path: string): Promise<Uint8Array | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw new InputError(`cannot read ${path}: ${(error as Error).message}`, { cause: error });
  }
}
