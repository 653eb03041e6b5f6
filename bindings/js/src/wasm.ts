// The WebAssembly module: loaded once for a realm, by whatever the runtime has.

import start, * as core from "./wasm/threadseal_wasm.js";
import { InputError, ThreadSealError } from "./errors.js";

/** Where the module comes from: bytes, a compiled module, a response or an address. */
export type ModuleSource = BufferSource | WebAssembly.Module | Response | URL | string;

let loading: Promise<unknown> | undefined;

/** Loads the module. Each function of this package does it where it was not done; a bundler, or a runtime without
 * `fetch` of files beside the script, gives the module as `source`. */
export async function init(source?: ModuleSource): Promise<void> {
  loading ??= load(source);
  try {
    await loading;
  } catch (cause) {
    loading = undefined;
    throw new ThreadSealError(`cannot load the WebAssembly module: ${textOf(cause)}`, {
      hint: "give its bytes: await init(bytes of \"threadseal/threadseal.wasm\")",
      cause,
    });
  }
}

async function load(source: ModuleSource | undefined): Promise<unknown> {
  const given = source ?? new URL("./wasm/threadseal_wasm_bg.wasm", import.meta.url);
  const isFile = given instanceof URL && given.protocol === "file:";
  return start({ module_or_path: isFile ? await bytesOf(given) : given });
}

async function bytesOf(file: URL): Promise<BufferSource> {
  // Bundlers for pages must not look for a module of Node.
  const name = "node:fs/promises";
  const files = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as typeof import("node:fs/promises");
  return files.readFile(file) as Promise<Buffer<ArrayBuffer>>;
}

/** Calls the module. Its exceptions are mistakes of the caller; a trap leaves the module unusable. */
export function call<T>(body: () => T): T {
  try {
    return body();
  } catch (cause) {
    if (cause instanceof ThreadSealError) throw cause;
    if (cause instanceof WebAssembly.RuntimeError || cause instanceof RangeError) {
      const text = `the WebAssembly module stopped: ${cause.message}`;
      throw new ThreadSealError(text, { hint: "use a new worker or process; is the file too large for its memory?", cause });
    }
    throw new InputError(textOf(cause), { cause });
  }
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export { core };
