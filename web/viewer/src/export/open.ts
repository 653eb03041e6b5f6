// Opening an export: its parts, as files that are held; and judging a received one from outside.

import { type Boot, type Index, type PartEntry, checkIndex, digest, fromBase64, gunzip, keyOf, partsOf, readBoot, takeApart, unescaped, unlock } from "./format.js";
import { type HeldLog, type LogRow, HeldHome } from "../home.js";

export interface Opened {
  readonly index: Index;
  readonly logs: readonly HeldLog[];
  /** Files that hold parts, and are not here yet. */
  readonly missing: readonly string[];
}

/** Opens the parts. `passphrase` is asked for only where the file has a lock. */
export async function openParts(boot: Boot, inside: ReadonlyMap<string, string>, beside: ReadonlyMap<string, Uint8Array>, passphrase: string | null): Promise<Opened> {
  let key: CryptoKey | null = null;
  let index = boot.index;
  if (boot.lock !== null) {
    if (passphrase === null) throw new Error("the session is encrypted");
    key = await keyOf(passphrase, fromBase64(boot.lock.salt), boot.lock.iterations);
    try {
      index = checkIndex(JSON.parse(new TextDecoder().decode(await unlock(key, "index", fromBase64(boot.lock.index)))) as Index);
    } catch {
      throw new Error("the passphrase does not open it");
    }
  }
  if (index === null) throw new Error("the file has no index");
  const missing: string[] = [];
  const bytes = new Map<string, Uint8Array>();
  for (const part of index.parts) {
    const words = inside.get(part.id);
    const stored = words !== undefined ? fromBase64(words) : part.file !== null ? beside.get(part.file) : undefined;
    if (stored === undefined) {
      if (part.file === null) throw new Error(`the part ${part.id} is not in the file`);
      missing.push(part.file);
      continue;
    }
    bytes.set(part.id, await plainBytes(part, stored, key));
  }
  return { index, logs: missing.length > 0 ? [] : logsOf(index, bytes), missing };
}

async function plainBytes(part: PartEntry, stored: Uint8Array, key: CryptoKey | null): Promise<Uint8Array> {
  const packed = key === null ? stored : await unlock(key, part.id, stored).catch(() => Promise.reject(new Error(`the part ${part.id} was changed`)));
  const bytes = await gunzip(packed, part.bytes).catch((error: unknown) => Promise.reject(new Error(`the part ${part.id} cannot be unpacked: ${error instanceof Error ? error.message : String(error)}`)));
  if ((await digest(bytes)) !== part.sha256) throw new Error(`the part ${part.id} is not that of the index`);
  return bytes;
}

function logsOf(index: Index, bytes: ReadonlyMap<string, Uint8Array>): HeldLog[] {
  const beside = (log: string, role: PartEntry["role"]): Uint8Array | null => {
    const found = index.parts.find((one) => one.log === log && one.role === role);
    return found === undefined ? null : bytes.get(found.id) ?? null;
  };
  return index.parts.filter((one) => one.role === "log" || one.role === "proof").map((one) => ({
    row: rowOf(one.log, one.parent, one.bytes), bytes: bytes.get(one.id)!, seals: beside(one.log, "seals"), bodies: beside(one.log, "bodies"),
    bodiesLeftOut: index.left_out.includes("bodies"),
  }));
}

export function rowOf(log: string, parent: string | null, bytes: number): LogRow {
  return { log, parent, path: null, bytes, seals: 0, bodies: 0, head: null, format: null, state: "", state_text: "", light: "none" };
}

export function homeOf(name: string, logs: readonly HeldLog[]): HeldHome {
  return new HeldHome({
    id: name, agent: "", project: null, title: name, begun: null, updated: null, turns: null, tools: null, tokens: null, cost: null, model: null, state: "", state_text: "", light: "amber",
    sub_agents: logs.length - 1, kind: "session", logs: logs.map((one) => one.row), links: [], secrets: 0,
  }, logs);
}

// ---------------------------------------------------------------------------------- from outside

/** What a received file shows, against what it is. */
export interface Compared {
  readonly boot: Boot;
  readonly parts: ReadonlyMap<string, string>;
  /** Is the code and everything around the record that of a known version? */
  readonly isKnownFrame: boolean;
  readonly title: string;
  /** The text that it shows without scripts. */
  readonly text: string;
}

/** Takes a received file apart without running anything of it. Throws where it is no export. */
export async function compareFile(file: string, frames: readonly string[]): Promise<Compared> {
  const pieces = takeApart(file);
  if (pieces === null) throw new Error("this HTML file is no export of ThreadSeal");
  const parts = partsOf(pieces.parts);
  if (parts === null) throw new Error("something is between the parts of the file that does not belong there");
  const boot = readBoot(pieces.boot);
  const frame = await digest(new TextEncoder().encode(pieces.frame));
  return { boot, parts, isKnownFrame: frames.includes(frame), title: unescaped(pieces.title), text: unescaped(pieces.text) };
}
