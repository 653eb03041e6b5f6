// What Python calls white space and digits, in UTF-8 and in text. Used where a format is read as Python
// reads it: spec/ledger.md §5.1, spec/documents.md §5 and §6, spec/transcript.md §8.

/** Unicode White_Space and U+001C to U+001F. */
export function isPythonSpace(point: number): boolean {
  if (point >= 0x09 && point <= 0x0d) return true;
  if (point >= 0x1c && point <= 0x20) return true;
  if (point < 0x80) return false;
  if (point === 0x85 || point === 0xa0 || point === 0x1680) return true;
  if (point >= 0x2000 && point <= 0x200a) return true;
  return point === 0x2028 || point === 0x2029 || point === 0x202f || point === 0x205f || point === 0x3000;
}

/** The length in bytes of the white space character that begins at `at`, or 0. The bytes are UTF-8. */
export function spaceAt(b: Uint8Array, at: number): number {
  const c = b[at];
  if (c === undefined) return 0;
  if (c < 0x80) return isPythonSpace(c) ? 1 : 0;
  if (c === 0xc2) return isPythonSpace(b[at + 1] ?? 0x41) ? 2 : 0;
  if (c < 0xe1 || c > 0xe3) return 0;
  const point = ((c & 0x0f) << 12) | (((b[at + 1] ?? 0) & 0x3f) << 6) | ((b[at + 2] ?? 0) & 0x3f);
  return isPythonSpace(point) ? 3 : 0;
}

/** The range without white space at both ends. The bytes are UTF-8. */
export function stripSpace(b: Uint8Array, from: number, to: number): { from: number; to: number } {
  for (;;) {
    const n = from < to ? spaceAt(b, from) : 0;
    if (n === 0) break;
    from += n;
  }
  for (;;) {
    let start = to - 1;
    while (start > from && (b[start]! & 0xc0) === 0x80) start -= 1;
    if (start < from || spaceAt(b, start) !== to - start) break;
    to = start;
  }
  return { from, to };
}
