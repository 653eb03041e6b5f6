// Fills the template of an export. The command writes the same file; this is for tests, and a second description.

import { plainTexts } from "../engine-wasm.js";
import { ITERATIONS, type Boot, type Index, type PartEntry, MAX_EXPORT_BYTES, SCHEMA, TOKENS, base64, bootText, digest, escaped, gzip, keyOf, lock, partText } from "./format.js";

export { useModule } from "../engine-wasm.js";

export interface InputLog {
  readonly log: string;
  readonly parent: string | null;
  readonly bytes: Uint8Array;
  readonly seals: Uint8Array | null;
  readonly bodies: Uint8Array | null;
  /** Proofs of turns stand in for a log whose other turns are left out. */
  readonly isProof?: boolean;
}

export interface FillOptions {
  readonly name: string;
  readonly passphrase: string | null;
  readonly withoutBodies: boolean;
  readonly maxBytes?: number;
}

export interface Filled {
  readonly html: string;
  /** Files beside it, for parts beyond the bound. */
  readonly files: readonly { readonly name: string; readonly bytes: Uint8Array }[];
}

export async function fill(template: string, logs: readonly InputLog[], options: FillOptions): Promise<Filled> {
  const salt = crypto.getRandomValues(new Uint8Array(16));
  const key = options.passphrase === null ? null : await keyOf(options.passphrase, salt, ITERATIONS);
  const entries: PartEntry[] = [];
  const files: { name: string; bytes: Uint8Array }[] = [];
  let inside = "";
  const add = async (log: InputLog, role: PartEntry["role"], bytes: Uint8Array): Promise<void> => {
    const id = `part-${entries.length}`;
    const packed = await gzip(bytes);
    const stored = key === null ? packed : await lock(key, id, packed);
    const isBeyond = inside.length + (stored.length * 4) / 3 > (options.maxBytes ?? MAX_EXPORT_BYTES);
    const file = isBeyond ? `${options.name.replace(/[^\w.-]+/g, "-")}.${id}` : null;
    if (file === null) inside += partText(id, stored);
    else files.push({ name: file, bytes: stored });
    entries.push({ id, log: log.log, role, parent: log.parent, bytes: bytes.length, sha256: await digest(bytes), file });
  };
  for (const log of logs) {
    await add(log, log.isProof === true ? "proof" : "log", log.bytes);
    if (log.seals !== null) await add(log, "seals", log.seals);
    if (log.bodies !== null && !options.withoutBodies) await add(log, "bodies", log.bodies);
  }
  const leftOut = options.withoutBodies && logs.some((log) => log.bodies !== null) ? ["bodies"] : [];
  const index: Index = { name: options.name, parts: entries, left_out: leftOut };
  const boot: Boot = key === null ? { mode: "export", schema: SCHEMA, index, lock: null } : {
    mode: "export", schema: SCHEMA, index: null,
    lock: {
      kdf: "PBKDF2-SHA-256", iterations: ITERATIONS, salt: base64(salt), cipher: "AES-256-GCM",
      index: base64(await lock(key, "index", new TextEncoder().encode(JSON.stringify(index)))),
    },
  };
  const text = key === null ? (await plainTexts(logs)) ?? "" : "The session is encrypted. It opens with its passphrase, in a browser that runs scripts.";
  const title = key === null ? `${options.name} · ThreadSeal` : "Encrypted session · ThreadSeal";
  const fills = [escaped(title), escaped(text), bootText(boot), inside];
  return { html: filled(template, fills), files };
}

/** The places are found before anything is filled in: foreign text may hold the tokens too. */
function filled(template: string, fills: readonly string[]): string {
  let html = "";
  let at = 0;
  TOKENS.forEach((token, n) => {
    const next = template.indexOf(token, at);
    if (next < 0) throw new Error(`the template has no ${token}`);
    html += template.slice(at, next) + fills[n]!;
    at = next + token.length;
  });
  return html + template.slice(at);
}
