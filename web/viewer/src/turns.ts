// Numbers of turns: those of the core, which the command, proofs and the plain text have too. Where the core is not built
// in, or no mapping reads the log, the page's own.

import type { Item } from "./read/session.js";

/** A line that is in no turn, as the core names it. */
const NO_TURN = 0xffff_ffff;
/** In these formats a line is what a person looks for. */
const BY_LINE = new Set(["plain", "ledger", "unknown"]);

export class Turns {
  /** The last turn of the lines up to each one, for links. */
  private readonly before: Uint32Array;
  readonly count: number;

  /** `ofLine`: the turn of each line, from line 1; empty where the core has none. */
  constructor(private readonly ofLine: Uint32Array, private readonly format: string) {
    this.before = new Uint32Array(ofLine.length);
    let last = 0;
    let most = -1;
    ofLine.forEach((turn, at) => {
      if (turn !== NO_TURN) most = Math.max(most, last = turn);
      this.before[at] = last;
    });
    this.count = most + 1;
  }

  private get isOwn(): boolean {
    return this.ofLine.length === 0;
  }

  ofPlace(line: number): number | null {
    const turn = this.ofLine[line - 1] ?? NO_TURN;
    return turn === NO_TURN ? null : turn;
  }

  /** The turns of an item: that of its line, and that of its result. */
  of(item: Item): number[] {
    if (this.isOwn) return BY_LINE.has(this.format) ? [] : [item.turn];
    return [...new Set([this.ofPlace(item.line), item.resultLine > 0 ? this.ofPlace(item.resultLine) : null])].filter((turn) => turn !== null);
  }

  /** The turn in the address of an item. */
  linked(item: Item): number {
    if (this.isOwn) return BY_LINE.has(this.format) ? item.line : item.turn;
    return this.of(item)[0] ?? this.before[item.line - 1] ?? Math.max(0, this.count - 1);
  }

  /** Is the item, or its result, in this turn? */
  has(item: Item, turn: number): boolean {
    return this.isOwn ? this.linked(item) === turn : this.of(item).includes(turn);
  }

  /** `turn 3`, `turns 2–3` of a call with its result, `line 29` of what is in no turn. */
  words(item: Item): string {
    const turns = this.of(item);
    const [first, last] = turns;
    if (first === undefined) return `line ${item.line}`;
    return last === undefined ? `turn ${first}` : `turns ${first}${last === first + 1 ? "–" : ", "}${last}`;
  }

  /** `turn 25 (line 33)`. */
  place(line: number): string {
    const turn = this.ofPlace(line);
    return turn === null ? `line ${line.toLocaleString("en")}` : `turn ${turn} (line ${line.toLocaleString("en")})`;
  }

  /** What is from this line to the last one: `Turns 48 to 50`, or its lines. */
  from(line: number, lines: number): string {
    const turns = [...this.ofLine.subarray(line - 1)].filter((turn) => turn !== NO_TURN);
    const range = (word: string, first: number, last: number): string => (first === last ? `${word} ${first}` : `${word}s ${first} to ${last}`);
    if (turns.length === 0) return range("Line", line, Math.max(line, lines));
    return range("Turn", turns.reduce((a, b) => Math.min(a, b)), turns.reduce((a, b) => Math.max(a, b)));
  }

  /** The first and the last line of a turn. */
  lines(turn: number): readonly [number, number] | null {
    const first = this.ofLine.indexOf(turn);
    return first < 0 ? null : [first + 1, this.ofLine.lastIndexOf(turn) + 1];
  }
}

export const NO_TURNS = new Turns(new Uint32Array(), "unknown");
