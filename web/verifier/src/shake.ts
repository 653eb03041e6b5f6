// SHAKE128 and SHAKE256 (FIPS 202): bytes in, then bytes out without end.

const LANES = 25;

/** Rotations of rho, and where pi puts each lane, lane x + 5y at x + 5y. */
const ROTATIONS = [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14];
const MOVED = Array.from({ length: LANES }, (_, lane) => {
  const x = lane % 5;
  const y = Math.floor(lane / 5);
  return y + 5 * ((2 * x + 3 * y) % 5);
});

/** The constants of iota: low and high halves. */
const ROUND_CONSTANTS = roundConstants();

/** FIPS 202 §3.2.5: the bits of a linear feedback shift register, at places 2^j - 1 of each constant. */
function roundConstants(): readonly (readonly [number, number])[] {
  const constants: [number, number][] = [];
  let register = 1;
  for (let round = 0; round < 24; round++) {
    let low = 0;
    let high = 0;
    for (let j = 0; j < 7; j++) {
      const place = 2 ** j - 1;
      if ((register & 1) === 1 && place < 32) low |= 1 << place;
      else if ((register & 1) === 1) high |= 1 << (place - 32);
      register <<= 1;
      if (register > 0xff) register ^= 0x171;
    }
    constants.push([low, high]);
  }
  return constants;
}

export class Shake {
  private readonly low = new Int32Array(LANES);
  private readonly high = new Int32Array(LANES);
  private at = 0;
  private squeezing = false;

  /** `rate` bytes are taken in or given out between two permutations: 168 for SHAKE128, 136 for SHAKE256. */
  private constructor(private readonly rate: number) {}

  static of128(...parts: readonly Uint8Array[]): Shake {
    return new Shake(168).absorb(parts);
  }

  static of256(...parts: readonly Uint8Array[]): Shake {
    return new Shake(136).absorb(parts);
  }

  /** The next bytes. */
  squeeze(length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (let i = 0; i < length; i++) bytes[i] = this.byte();
    return bytes;
  }

  /** The next byte. */
  byte(): number {
    if (!this.squeezing) this.finish();
    if (this.at === this.rate) {
      this.permute();
      this.at = 0;
    }
    const lane = this.at >> 3;
    const half = (this.at & 4) === 0 ? this.low : this.high;
    const byte = (half[lane]! >>> (8 * (this.at & 3))) & 0xff;
    this.at += 1;
    return byte;
  }

  private absorb(parts: readonly Uint8Array[]): this {
    for (const part of parts) {
      for (const byte of part) {
        this.mix(this.at, byte);
        this.at += 1;
        if (this.at === this.rate) {
          this.permute();
          this.at = 0;
        }
      }
    }
    return this;
  }

  private mix(at: number, byte: number): void {
    const half = (at & 4) === 0 ? this.low : this.high;
    half[at >> 3]! ^= byte << (8 * (at & 3));
  }

  /** The suffix 1111 and the padding 10*1. */
  private finish(): void {
    this.mix(this.at, 0x1f);
    this.mix(this.rate - 1, 0x80);
    this.permute();
    this.at = 0;
    this.squeezing = true;
  }

  /** Keccak-f[1600]. */
  private permute(): void {
    const { low, high } = this;
    for (const [constantLow, constantHigh] of ROUND_CONSTANTS) {
      for (let x = 0; x < 5; x++) {
        COLUMN_LOW[x] = low[x]! ^ low[x + 5]! ^ low[x + 10]! ^ low[x + 15]! ^ low[x + 20]!;
        COLUMN_HIGH[x] = high[x]! ^ high[x + 5]! ^ high[x + 10]! ^ high[x + 15]! ^ high[x + 20]!;
      }
      for (let x = 0; x < 5; x++) {
        const [before, after] = [(x + 4) % 5, (x + 1) % 5];
        const mixLow = COLUMN_LOW[before]! ^ ((COLUMN_LOW[after]! << 1) | (COLUMN_HIGH[after]! >>> 31));
        const mixHigh = COLUMN_HIGH[before]! ^ ((COLUMN_HIGH[after]! << 1) | (COLUMN_LOW[after]! >>> 31));
        for (let lane = x; lane < LANES; lane += 5) {
          low[lane]! ^= mixLow;
          high[lane]! ^= mixHigh;
        }
      }
      for (let lane = 0; lane < LANES; lane++) {
        const by = ROTATIONS[lane]!;
        const to = MOVED[lane]!;
        const [first, second] = by < 32 ? [low[lane]!, high[lane]!] : [high[lane]!, low[lane]!];
        const bits = by & 31;
        NEXT_LOW[to] = bits === 0 ? first : (first << bits) | (second >>> (32 - bits));
        NEXT_HIGH[to] = bits === 0 ? second : (second << bits) | (first >>> (32 - bits));
      }
      for (let row = 0; row < LANES; row += 5) {
        for (let x = 0; x < 5; x++) {
          const [one, two] = [row + ((x + 1) % 5), row + ((x + 2) % 5)];
          low[row + x] = NEXT_LOW[row + x]! ^ (~NEXT_LOW[one]! & NEXT_LOW[two]!);
          high[row + x] = NEXT_HIGH[row + x]! ^ (~NEXT_HIGH[one]! & NEXT_HIGH[two]!);
        }
      }
      low[0]! ^= constantLow;
      high[0]! ^= constantHigh;
    }
  }
}

// Of one permutation. Nothing interrupts it, so that all share them.
const COLUMN_LOW = new Int32Array(5);
const COLUMN_HIGH = new Int32Array(5);
const NEXT_LOW = new Int32Array(LANES);
const NEXT_HIGH = new Int32Array(LANES);
