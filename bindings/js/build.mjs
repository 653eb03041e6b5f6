// Builds the package into `dist/`: the module, the types, the second verifier and the plugin, each from its one source.
//
//   THREADSEAL_WASM=FOLDER VERIFIER_DIST=FOLDER OPENCODE=FILE node build.mjs

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

function folderOf(variable) {
  const value = process.env[variable];
  if (value === undefined) throw new Error(`${variable} is not set; hint: bindings/js/run.sh builds the package`);
  return value;
}

function copy(from, to, names) {
  fs.mkdirSync(to, { recursive: true });
  for (const name of names) fs.copyFileSync(path.join(from, name), path.join(to, name));
}

const MODULE = ["threadseal_wasm.js", "threadseal_wasm.d.ts", "threadseal_wasm_bg.wasm"];
fs.rmSync("dist", { recursive: true, force: true });
// The compiler reads the types of the module beside the sources.
copy(folderOf("THREADSEAL_WASM"), "src/wasm", MODULE);
const compiled = spawnSync("node_modules/.bin/tsc", ["-p", "tsconfig.json"], { stdio: "inherit" });
if (compiled.status !== 0) process.exit(1);
copy("src/wasm", "dist/wasm", MODULE);
// The types of the module name `Symbol.dispose`, which the library of a program may lack.
const types = "dist/wasm/threadseal_wasm.d.ts";
fs.writeFileSync(types, `/// <reference lib="esnext.disposable" />\n${fs.readFileSync(types, "utf8")}`);

const verifier = folderOf("VERIFIER_DIST");
copy(verifier, "dist/verifier", fs.readdirSync(verifier).filter((name) => /\.(js|d\.ts)$/.test(name)));

// `threadseal install` puts its own command at the same place.
const COMMAND = '["threadseal"]';
const plugin = fs.readFileSync(folderOf("OPENCODE"), "utf8");
if (plugin.split(COMMAND).length !== 2) throw new Error("the plugin has no place for its command");
fs.writeFileSync("dist/opencode.js", plugin.replace(COMMAND, '["threadseal", "hook", "opencode"]'));
fs.copyFileSync("src/opencode.d.ts", "dist/opencode.d.ts");
