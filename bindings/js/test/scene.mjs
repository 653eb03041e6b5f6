// Folders, homes and records for the tests. The package under test is the one that npm installed beside them.
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const root = process.env.ROOT;
export const testkit = path.join(root, "testkit");
export const command = process.env.THREADSEAL;
export const app = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), "..");

/** The key of the testkit. */
export const KEY = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
// Any moment from 2027 on: here 2027-01-15T08:00:00Z.
export const NOW = 1_800_000_000_000;

const made = [];
process.on("exit", () => {
  for (const folder of made) fs.rmSync(folder, { recursive: true, force: true });
});

/** A new folder, gone after the test. */
export function folder() {
  const path_ = fs.mkdtempSync(path.join(os.tmpdir(), "threadseal-js-"));
  made.push(path_);
  return path_;
}

/** A folder with a home, and the options by which the package finds it. */
export function scene() {
  const cwd = folder();
  const home = path.join(cwd, "home");
  const options = { command, home, cwd };
  run(options, ["init", "-q"]);
  const keys = json(options, ["key", "list"]).keys;
  const key = keys.find(({ usage }) => usage === "native").public;
  return { cwd, home, options, key, file: (name) => path.join(cwd, name) };
}

/** Runs the command: what it printed, and its exit code. */
export function run({ home, cwd }, args) {
  const { status, stdout, stderr } = spawnSync(command, ["--home", home, ...args], { cwd, encoding: "utf8", maxBuffer: 1 << 28 });
  return { status, stdout, stderr };
}

export function json(options, args) {
  return JSON.parse(run(options, [...args, "--json"]).stdout);
}

/** Runs a program of the build folder, such as deno or bun, in the app. */
export function program(name, args, options = {}) {
  const found = path.join(app, "..", "node_modules", ".bin", name);
  return execFileSync(found, args, { cwd: app, encoding: "utf8", ...options });
}

/** Replaces the only occurrence of a text in a file. */
export function tamper(file, from, to) {
  const text = fs.readFileSync(file, "utf8");
  if (text.split(from).length < 2) throw new Error(`${file} has no ${from}`);
  fs.writeFileSync(file, text.replace(from, to));
}
