// Builds the page: its assets for a server, the verification page, and the template of an export. The same sources give
// the same bytes.

import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { constants, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
/** The folder that `web/wasm/build.sh` wrote. Without it the page has one engine. */
const wasm = process.env.THREADSEAL_WASM ?? join(root, "web/wasm/dist");
const glue = join(wasm, "threadseal_wasm.js");
const module = join(wasm, "threadseal_wasm_bg.wasm");
const hasWasm = existsSync(glue) && existsSync(module);
const out = process.env.OUT ?? join(here, "dist");

const common = {
  bundle: true, minify: true, write: false, target: ["es2022"], charset: "utf8", legalComments: "none", logLevel: "warning",
  loader: { ".txt": "text", ".jsonl": "text" },
  alias: { "threadseal-wasm": hasWasm ? glue : join(here, "src/wasm-absent.ts") },
  absWorkingDir: here,
};

async function bundle(entry, options = {}) {
  const { outputFiles } = await build({ ...common, entryPoints: [join(here, entry)], ...options });
  return outputFiles[0].text;
}

/** The glue looks for its module beside itself; here it is always given. */
const classic = { format: "iife", define: { "import.meta.url": '""' } };

function hash(text) {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

/** Gzip without a time or a name, so that it is the same each time. */
function gzipped(bytes) {
  return gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION });
}

function fill(text, values) {
  for (const [token, value] of Object.entries(values)) {
    const at = text.indexOf(token);
    if (at < 0) throw new Error(`the template has no ${token}`);
    text = text.slice(0, at) + value + text.slice(at + token.length);
  }
  return text;
}

const style = (await build({ ...common, entryPoints: [join(here, "src/style.css")] })).outputFiles[0].text;
const workerClassic = await bundle("src/worker.ts", classic);
const workerModule = await bundle("src/worker.ts", { format: "esm", define: { "import.meta.url": '""' } });

// The page inside an export knows no frames: it is no place to judge other exports.
const inner = await bundle("src/app.ts", { ...classic, define: { ...classic.define, HAS_MODULE: String(hasWasm), FRAMES: "[]" } });
const script = inner.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
// The module is beside it, once for both; the command puts it into its place.
const unfilled = fill(readFileSync(join(here, "export/template.html"), "utf8"), {
  "@SCRIPT_HASH@": hash(script), "@STYLE_HASH@": hash(style), "@STYLE@": style, "@WORKER@": gzipped(workerClassic).toString("base64"), "@SCRIPT@": script,
});
const wasmPacked = hasWasm ? gzipped(readFileSync(module)) : Buffer.alloc(0);
const template = fill(unfilled, { "@WASM@": wasmPacked.toString("base64") });
const frame = createHash("sha256").update(template).digest("hex");
const app = await bundle("src/app.ts", { format: "esm", define: { "import.meta.url": '""', HAS_MODULE: String(hasWasm), FRAMES: JSON.stringify([frame]) } });

rmSync(out, { recursive: true, force: true });
const index = readFileSync(join(here, "src/index.html"), "utf8");
const assets = join(out, "assets");
const site = join(out, "verify");
mkdirSync(assets, { recursive: true });
mkdirSync(site, { recursive: true });
const served = { "app.js": app, "worker.js": workerModule, "style.css": style };
for (const [name, text] of Object.entries(served)) {
  writeFileSync(join(assets, `${name}.gz`), gzipped(text));
  writeFileSync(join(site, name), text);
}
writeFileSync(join(assets, "threadseal_wasm_bg.wasm.gz"), wasmPacked);
if (hasWasm) copyFileSync(module, join(site, "threadseal_wasm_bg.wasm"));
writeFileSync(join(assets, "index.html"), index);
writeFileSync(join(assets, "export.html"), unfilled);
writeFileSync(join(assets, "FRAME"), `${frame}\n`);
// For tests, which fill it without the command.
writeFileSync(join(out, "export.html"), template);
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src blob: data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'";
const meta = `<meta http-equiv="Content-Security-Policy" content="${policy}">`;
writeFileSync(join(site, "index.html"), fill(index, { '<meta charset="utf-8">': `<meta charset="utf-8">\n${meta}`, "<title>ThreadSeal</title>": "<title>Verify · ThreadSeal</title>", "@@BOOT@@": '{"mode":"verify"}' }));
writeFileSync(join(out, "fill.mjs"), await bundle("src/export/fill.ts", { format: "esm", platform: "neutral" }));

const sizes = { app: app.length, worker: workerModule.length, style: style.length, wasm: hasWasm ? readFileSync(module).length : 0, export: template.length };
console.log(Object.entries(sizes).map(([name, size]) => `${name} ${(size / 1000).toFixed(0)} kB`).join(", "));
