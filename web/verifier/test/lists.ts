// The lists of the testkit: the subset of TOML that they use, and files.

import { parseBase64 } from "../dist/bytes.js";
import { existsSync } from "node:fs";
import { TESTKIT, listTest, readBytes } from "./vectors.js";

export const testkit = readBytes;
export { listTest };

export type Entry = Record<string, string | string[] | boolean>;

/** The tables of a list: those before the first `[[…]]` under "", and then each entry. None of a missing list. */
export function readList(path: string): { head: Record<string, Entry>; entries: Entry[] } {
  const head: Record<string, Entry> = { "": {} };
  const entries: Entry[] = [];
  if (!existsSync(TESTKIT + path)) return { head, entries };
  let present: Entry = head[""]!;
  for (const line of new TextDecoder().decode(testkit(path)).split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    if (line.startsWith("[[")) {
      present = {};
      entries.push(present);
      continue;
    }
    if (line.startsWith("[")) {
      present = {};
      head[line.slice(1, -1)] = present;
      continue;
    }
    const at = line.indexOf(" = ");
    present[line.slice(0, at)] = JSON.parse(line.slice(at + 3)) as string | string[] | boolean;
  }
  return { head, entries };
}

export function textOf(entry: Entry, name: string): string | undefined {
  const value = entry[name];
  return typeof value === "string" ? value : undefined;
}

/** The value of a flag such as `--expect-head`. */
export function flagOf(entry: Entry, flag: string): string | undefined {
  const flags = entry["flags"];
  if (!Array.isArray(flags)) return undefined;
  const at = flags.indexOf(flag);
  return at < 0 ? undefined : flags[at + 1];
}

export function hasFlag(entry: Entry, flag: string): boolean {
  const flags = entry["flags"];
  return Array.isArray(flags) && flags.includes(flag);
}

/** The 32 bytes of the key in a PEM file. */
export function keyOfPem(path: string): Uint8Array {
  const text = new TextDecoder().decode(testkit(path)).split("\n")[1] ?? "";
  return parseBase64(text)!.slice(12);
}
