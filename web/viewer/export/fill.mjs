// Fills the template of an export with the logs of a session: what `threadseal export --html` does.
//
//   node fill.mjs OUT.html NAME LOG.jsonl [SUBAGENT.jsonl …] [--passphrase WORDS] [--without-bodies] [--max-bytes N]
//
// The seals and bodies of a log are the files beside it.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));

/** `logs`: [{ log, path, parent }]. Gives the page, and the files beside it. */
export async function fillFiles({ name, logs, passphrase = null, withoutBodies = false, maxBytes, dist = join(here, "../dist") }) {
  const { fill, useModule } = await import(join(dist, "fill.mjs"));
  const module = join(dist, "verify/threadseal_wasm_bg.wasm");
  if (existsSync(module)) await useModule(new Uint8Array(readFileSync(module)));
  const template = readFileSync(join(dist, "export.html"), "utf8");
  const beside = (path) => (existsSync(path) ? new Uint8Array(readFileSync(path)) : null);
  const inputs = logs.map(({ log, path, parent = null }) => ({
    log, parent, bytes: new Uint8Array(readFileSync(path)), seals: beside(`${path}.seal`), bodies: beside(path.replace(/\.jsonl$/, ".bodies")), isProof: path.endsWith(".turn-proof"),
  }));
  return fill(template, inputs, { name, passphrase, withoutBodies, ...(maxBytes === undefined ? {} : { maxBytes }) });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const words = process.argv.slice(2);
  const option = (flag) => {
    const at = words.indexOf(flag);
    return at < 0 ? undefined : words.splice(at, 2)[1];
  };
  const passphrase = option("--passphrase") ?? null;
  const maxBytes = option("--max-bytes");
  const flag = words.indexOf("--without-bodies");
  if (flag >= 0) words.splice(flag, 1);
  const [out, name, ...paths] = words;
  if (paths.length === 0) {
    console.error("usage: node fill.mjs OUT.html NAME LOG.jsonl [SUBAGENT.jsonl …]");
    process.exit(2);
  }
  const logs = paths.map((path, at) => ({ log: at === 0 ? name : `${name}/${basename(path).replace(/\.jsonl$/, "")}`, path, parent: at === 0 ? null : name }));
  const { html, files } = await fillFiles({ name, logs, passphrase, withoutBodies: flag >= 0, maxBytes: maxBytes === undefined ? undefined : Number(maxBytes) });
  writeFileSync(out, html);
  for (const file of files) writeFileSync(join(dirname(out), file.name), file.bytes);
  console.log(`${out}: ${html.length} bytes${files.length > 0 ? `, and ${files.length} files beside it` : ""}`);
}
