// The plugin of the package is the file that `threadseal install` writes, and its hooks seal a session of OpenCode.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ThreadSeal } from "threadseal/opencode";
import { verifyFile } from "threadseal/node";
import { app, command, folder, root, scene, tamper } from "./scene.mjs";

test("it is the plugin that the command installs, but for the command in it", () => {
  const home = folder();
  const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: path.join(home, ".config"), XDG_DATA_HOME: path.join(home, ".local/share") };
  execFileSync(command, ["init", "-q"], { env });
  execFileSync(command, ["install", "opencode", "--yes", "--no-watcher"], { env });
  const plugins = path.join(home, ".config/opencode/plugin");
  const [name] = fs.readdirSync(plugins);
  const installed = fs.readFileSync(path.join(plugins, name), "utf8");
  const ours = fs.readFileSync(path.join(app, "node_modules/threadseal/dist/opencode.js"), "utf8");
  // The first line of an installed one proves the rest.
  const body = installed.slice(installed.indexOf("\n") + 1).replace(/^const command = .*$/m, 'const command = ["threadseal", "hook", "opencode"]');
  assert.equal(ours, body);
});

test("each event that ends a turn, and the end, reach the command's hook", async () => {
  const { cwd, home } = scene();
  // The command on the path notes what the plugin runs.
  const bin = path.join(cwd, "bin");
  const log = path.join(cwd, "calls");
  fs.mkdirSync(bin);
  fs.writeFileSync(path.join(bin, "threadseal"), `#!/bin/sh\n{ echo "$*"; cat; echo; } >>'${log}'\n`, { mode: 0o755 });
  const before = process.env.PATH;
  process.env.PATH = `${bin}:${before}`;
  process.env.THREADSEAL_HOME = home;
  try {
    const hooks = await ThreadSeal({ directory: cwd });
    await hooks.event({ event: { type: "message.updated", properties: { info: { sessionID: "ses_1" } } } });
    assert.equal(fs.existsSync(log), false);
    await hooks["tool.execute.after"]({ tool: "bash", sessionID: "ses_1", callID: "c1" });
    await hooks.event({ event: { type: "session.idle", properties: { sessionID: "ses_1" } } });
    await hooks.dispose();
  } finally {
    process.env.PATH = before;
  }
  const lines = fs.readFileSync(log, "utf8").trim().split("\n");
  assert.deepEqual(lines.filter((_, at) => at % 2 === 0), Array(3).fill("hook opencode"));
  const payloads = lines.filter((_, at) => at % 2 === 1).map((line) => JSON.parse(line));
  assert.deepEqual(payloads.map(({ hook_event_name: name }) => name), ["tool.execute.after", "session.idle", "dispose"]);
  assert.ok(payloads.every(({ session_id: session, cwd: at }) => session === "ses_1" && at === cwd));
});

/** OpenCode's settings of one user: the model of a server on loopback, and the plugin of the package. */
function settings(port) {
  const home = folder();
  const config = path.join(home, ".config/opencode");
  fs.mkdirSync(path.join(config, "plugin"), { recursive: true });
  // OpenCode installs what its folder of settings asks for.
  const [tarball] = fs.readdirSync(path.join(app, "..")).filter((name) => /^threadseal-.*\.tgz$/.test(name));
  fs.writeFileSync(path.join(config, "package.json"), JSON.stringify({ dependencies: { threadseal: `file:${path.join(app, "..", tarball)}` } }));
  fs.writeFileSync(path.join(config, "plugin/threadseal.js"), 'export { ThreadSeal } from "threadseal/opencode"\n');
  const options = { baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "none" };
  const models = { none: { name: "none", limit: { context: 100_000, output: 8000 } } };
  fs.writeFileSync(path.join(config, "opencode.json"), JSON.stringify({
    autoupdate: false, share: "disabled", model: "local/none", permission: { bash: "allow", edit: "allow" },
    provider: { local: { npm: "@ai-sdk/openai-compatible", name: "local", options, models } },
  }));
  return home;
}

// T-JS-40
test("a session of OpenCode itself is sealed by the plugin, and a changed copy is refused", async (t) => {
  const model = spawn("python3", ["-c", "import sys, model; print(model.serve().server_port, flush=True); sys.stdin.read()"], {
    env: { ...process.env, PYTHONPATH: path.join(root, "interop/agents"), PYTHONDONTWRITEBYTECODE: "1" }, stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => model.stdin.end());
  const [port] = await once(model.stdout, "data");
  const home = settings(Number(port));
  const project = path.join(home, "project");
  const bin = path.join(home, "bin");
  for (const made of [project, bin]) fs.mkdirSync(made);
  fs.symlinkSync(command, path.join(bin, "threadseal"));
  const env = {
    ...process.env, HOME: home, XDG_CONFIG_HOME: path.join(home, ".config"), XDG_DATA_HOME: path.join(home, "data"),
    XDG_CACHE_HOME: path.join(home, ".cache"), XDG_STATE_HOME: path.join(home, ".state"), PATH: `${bin}:${process.env.PATH}`,
    PWD: project, OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1",
  };
  const ask = (args) => execFileSync(command, args, { env, encoding: "utf8", cwd: project });
  ask(["init", "-q"]);
  // Standard input is at its end: OpenCode adds it to the task.
  const opencode = path.join(app, "../node_modules/.bin/opencode");
  const ran = spawn(opencode, ["run", "Add a line to the file. [opencode]"], { env, cwd: project, stdio: ["ignore", "ignore", "inherit"] });
  assert.deepEqual(await once(ran, "close"), [0, null]);
  assert.equal(fs.readFileSync(path.join(project, "made-by-agent.txt"), "utf8"), "line\n");
  const listed = () => JSON.parse(ask(["list", "--json"])).sessions.map(({ agent, state }) => [agent, state]);
  // On a busy machine the last hook does not wait for the one before: its rows are left to the watcher.
  assert.match(String(listed()), /^opencode,(verified|growing)$/);
  ask(["watch", "--once"]);
  assert.deepEqual(listed(), [["opencode", "verified"]]);
  const { id } = JSON.parse(ask(["list", "--json"])).sessions[0];
  const out = path.join(home, "out");
  ask(["export", id, out]);
  const [log] = fs.readdirSync(out, { recursive: true }).filter((name) => fs.existsSync(path.join(out, `${name}.seal`)));
  const key = JSON.parse(ask(["key", "list", "--json"])).keys.find(({ usage }) => usage === "observed").public;
  const file = path.join(out, log);
  (await verifyFile(file, { trust: key })).require(["open"]);
  tamper(file, "made-by-agent", "made-by-people");
  assert.equal((await verifyFile(file, { trust: key })).verdict, "tampered");
});
