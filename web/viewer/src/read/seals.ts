// Where seals are, to draw them: lines and times that a seal file or checkpoints state. Whether they hold, the verifiers
// decide; nothing here is a verdict.

export interface SealMark {
  /** The last line that the seal covers. */
  readonly line: number;
  readonly seq: number;
  /** Milliseconds, by the signer's clock. */
  readonly time: number | null;
  readonly final: boolean;
}

export interface SealFile {
  readonly key: string | null;
  readonly record: string | null;
  readonly seals: readonly SealMark[];
  /** Lines that a statement names as redacted: `[first, last]`. */
  readonly redacted: readonly (readonly [number, number])[];
}

export function readSealFile(bytes: Uint8Array): SealFile {
  const seals: SealMark[] = [];
  const redacted: [number, number][] = [];
  let key: string | null = null;
  let record: string | null = null;
  for (const line of new TextDecoder().decode(bytes).split("\n")) {
    const value = parse(line);
    if (value === null) continue;
    if (typeof value["format"] === "string") {
      key = String(value["key"] ?? "") || null;
      record = String(value["record"] ?? "") || null;
    }
    const seal = value["seal"];
    if (typeof seal === "object" && seal !== null) {
      seals.push({ line: Number(seal.lines), seq: Number(seal.seq), time: Number(seal.time) * 1000 || null, final: seal.final === true });
    }
    const runs = value["redacted"]?.runs ?? value["redacted"]?.lines;
    if (Array.isArray(runs)) for (const run of runs) if (Array.isArray(run)) redacted.push([Number(run[0]), Number(run[0]) + Number(run[1] ?? 1) - 1]);
  }
  return { key, record, seals, redacted };
}

function parse(line: string): any {
  // Lines of leaves are long, and of no use here.
  if (line === "" || line.startsWith('{"leaves"') || line.startsWith('{"salts"')) return null;
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
