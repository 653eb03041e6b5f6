// The testkit: where it is, its files, tests of its lists, and the subset of TOML that these use.

import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The folder of the testkit: TESTKIT, else `../../testkit` as the package sees it. */
export const TESTKIT: string = folder();

function folder(): string {
  const named = process.env["TESTKIT"] ?? fileURLToPath(new URL("../../../testkit", import.meta.url));
  return named.endsWith("/") ? named : `${named}/`;
}

/** A test of a list of the testkit, which is skipped where the list is not there. */
export function listTest(list: string, name: string, run: () => void | Promise<void>): void {
  const skip = existsSync(TESTKIT + list) ? false : `${TESTKIT}${list} is not there`;
  test(`${list}: ${name}`, { skip }, run);
}

export function readText(path: string): string {
  return readFileSync(TESTKIT + path, "utf8");
}

export function readBytes(path: string): Uint8Array {
  return new Uint8Array(readFileSync(TESTKIT + path));
}

export type Table = Readonly<Record<string, string | number | boolean | readonly string[]>>;

export interface Tables {
  /** Members before the first table. */
  readonly top: Table;
  /** The tables of `[[name]]`, in order. */
  readonly list: readonly (Table & { readonly table: string })[];
}

/** Reads a list: comments, `name = value` on one line, `[table]`, `[[table]]`. */
export function parseTables(text: string): Tables {
  const top: Record<string, Table[string]> = {};
  const list: (Record<string, Table[string]> & { table: string })[] = [];
  let into: Record<string, Table[string]> = top;
  for (const line of text.split("\n")) {
    const table = /^\[\[?([a-z_.]+)\]\]?$/.exec(line.trim());
    if (table !== null) {
      const next = { table: table[1]! };
      list.push(next);
      into = next;
      continue;
    }
    const member = /^([A-Za-z_]+)\s*=\s*(.*)$/.exec(line);
    if (member !== null) into[member[1]!] = parseValue(member[2]!);
  }
  return { top, list };
}

/** Texts, numbers, words and lists of texts are spelled in TOML as in JSON, in these files. */
function parseValue(text: string): Table[string] {
  const plain = text.replace(/,\s*\]$/, "]");
  return JSON.parse(plain) as Table[string];
}
