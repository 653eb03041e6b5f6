// A change as lines: what is shown of it, and what is counted.

import type { Change } from "./part.js";

/** Of more lines than this the two sides are shown one after the other. */
const MAX_COMPARED = 2000;

export type Row = readonly [" " | "+" | "-" | "@", string];

export function rowsOf(change: Change): Row[] {
  return "patch" in change ? patchRows(change.patch) : compared(change.before, change.after);
}

function patchRows(patch: string): Row[] {
  return patch.split("\n").filter((line) => !/^(\*\*\* (Begin|End) Patch|\\ No newline)/.test(line)).map((line): Row => {
    if (/^(@@|\*\*\*|---|\+\+\+|diff |index )/.test(line)) return ["@", line];
    if (line.startsWith("+")) return ["+", line.slice(1)];
    if (line.startsWith("-")) return ["-", line.slice(1)];
    return [" ", line.startsWith(" ") ? line.slice(1) : line];
  });
}

/** The longest common lines of both sides stay. */
export function compared(before: string, after: string): Row[] {
  const a = before === "" ? [] : before.split("\n");
  const b = after === "" ? [] : after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const rows: Row[] = a.slice(0, start).map((line): Row => [" ", line]);
  rows.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)));
  rows.push(...a.slice(a.length - end).map((line): Row => [" ", line]));
  return rows;
}

function middle(a: readonly string[], b: readonly string[]): Row[] {
  if (a.length * b.length > MAX_COMPARED * MAX_COMPARED || a.length === 0 || b.length === 0) {
    return [...a.map((line): Row => ["-", line]), ...b.map((line): Row => ["+", line])];
  }
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1]! + 1 : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const rows: Row[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      rows.push([" ", a[i++]!]);
      j++;
    } else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) rows.push(["-", a[i++]!]);
    else rows.push(["+", b[j++]!]);
  }
  while (i < a.length) rows.push(["-", a[i++]!]);
  while (j < b.length) rows.push(["+", b[j++]!]);
  return rows;
}
