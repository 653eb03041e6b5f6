// Sessions of every state, made by the command: a home, logs of agents, seals, and what was done to them afterwards.

import { execFileSync } from "node:child_process";
import { appendFileSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { workday } from "./maker.mjs";

export const THREADSEAL = process.env.THREADSEAL ?? "threadseal";

export function makeScene() {
  const folder = mkdtempSync(join(tmpdir(), "threadseal-view-"));
  const home = join(folder, "home");
  const run = (...args) => {
    try {
      return execFileSync(THREADSEAL, args, { cwd: folder, env: { ...process.env, HOME: folder, THREADSEAL_HOME: home }, stdio: ["ignore", "pipe", "pipe"] }).toString();
    } catch (error) {
      // A verdict that is no 0 still prints its report.
      if (error.stdout?.length > 0) return error.stdout.toString();
      throw error;
    }
  };
  run("init");
  run("id", "export", "-o", "ann.id");
  const keys = JSON.parse(run("trust", "list", "--json"));
  const trust = { keys: (keys.entries ?? keys.keys).map((one) => ({ name: one.name, usage: one.usage ?? one.usages, public: one.public ?? one.key })), store: readFileSync(join(home, "trust.toml"), "utf8") };

  const sessions = [];
  let age = 0;
  const add = (id, logs, more = {}) => {
    const [agent] = id.split(":");
    age += 1;
    sessions.push({
      row: { id, agent, project: "/home/ann/src/shop-api", title: "", begun: "2026-11-20T09:14:02Z", updated: new Date(Date.now() - age * 5_000_000).toISOString(), turns: 24, tools: 9, tokens: 412_000, cost: null, model: "claude-opus-4-8", state: "verified", state_text: "verified", light: "green", sub_agents: logs.length - 1, kind: "session", ...more.row },
      logs, links: more.links ?? [],
    });
  };
  const write = (name, text) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const seal = (path, ...args) => run("seal", "-q", ...args, path);
  /** The newest head that this home knows of a log. */
  const headOf = (path, ...args) => JSON.parse(run("verify", "--json", path, ...args)).results[0].head;

  // A day's work, sealed in steps as it grew, with its subagent.
  const day = workday();
  const path = join(folder, "day.jsonl");
  const lines = day.log.lines;
  for (const end of [14, lines.length - 3, lines.length]) {
    writeFileSync(path, `${lines.slice(0, end).join("\n")}\n`);
    seal(path);
  }
  const sub = write(`agent-${day.agent}.jsonl`, day.sub.text);
  seal(sub);
  const id = `claude-code:${day.log.id}`;
  add(id, [{ log: id, path, head: headOf(path) }, { log: `${id}/agent-${day.agent}`, path: sub, parent: id, head: headOf(sub) }], { row: { title: "The checkout test fails since we moved to the new payment client" }, links: [{ kind: "lineage", id: "run-1" }] });

  // The same, with one word changed after it was sealed.
  const changed = write("changed.jsonl", workday().log.text);
  seal(changed);
  const changedHead = headOf(changed);
  writeFileSync(changed, readFileSync(changed, "utf8").replace("42 passed; 2 failed", "44 passed; 0 failed"));
  add("claude-code:changed", [{ log: "claude-code:changed", path: changed, head: changedHead }], { row: { title: "Fix the failing checkout test", state: "changed", state_text: "changed at line 5", light: "red" } });

  // A tail after the last seal.
  const growing = write("growing.jsonl", workday().log.text);
  seal(growing);
  const growingHead = headOf(growing);
  appendFileSync(growing, `${workday().log.lines.slice(0, 3).join("\n")}\n`);
  add("claude-code:growing", [{ log: "claude-code:growing", path: growing, head: growingHead }], { row: { title: "Add a retry to the payment client", state: "growing", state_text: "sealed, still growing", light: "amber" } });

  // Put back to an earlier state, with the seals of that state: only a head that is known elsewhere shows it.
  const rolled = write("rolled.jsonl", `${workday().log.lines.slice(0, 20).join("\n")}\n`);
  seal(rolled);
  const before = [rolled, `${rolled}.seal`].map((file) => [file, readFileSync(file)]);
  appendFileSync(rolled, `${workday().log.lines.slice(0, 3).join("\n")}\n`);
  seal(rolled);
  const rolledHead = headOf(rolled);
  for (const [file, bytes] of before) writeFileSync(file, bytes);
  add("claude-code:rolled", [{ log: "claude-code:rolled", path: rolled, head: rolledHead }], { row: { title: "Remove the old gateway", state: "rolled_back", state_text: "rolled back: a newer seal is known", light: "red" } });

  // Its seals were taken away.
  const bare = write("bare.jsonl", workday().log.text);
  seal(bare);
  const bareHead = headOf(bare);
  rmSync(`${bare}.seal`);
  add("claude-code:bare", [{ log: "claude-code:bare", path: bare, head: bareHead }], { row: { title: "Raise the limits of the gateway", state: "changed", state_text: "its seals are gone", light: "red" } });

  // No seal at all, and nothing known beside its words.
  const unsealed = write("unsealed.jsonl", workday().log.text);
  add("claude-code:unsealed", [{ log: "claude-code:unsealed", path: unsealed }], { row: { title: "Try a new logger", state: "unsealed", state_text: "not sealed", light: "amber", turns: null, tools: null, tokens: null, model: null, project: null } });

  // A line that was redacted for good.
  const redacted = write("redacted.jsonl", workday().log.text);
  seal(redacted);
  run("redact", redacted, "--line", "3", "--why", "a customer's name", "--output", join(folder, "redacted"));
  add("claude-code:redacted", [{ log: "claude-code:redacted", path: join(folder, "redacted", "redacted.jsonl"), head: headOf(join(folder, "redacted", "redacted.jsonl")) }], { row: { title: "Look into order 4711", light: "green" } });

  // A native record, ended and verified.
  run("demo");
  const demo = join(folder, "threadseal-demo/records/transcript.jsonl");
  const demoTrust = readFileSync(join(folder, "threadseal-demo/home/trust.toml"), "utf8");
  const demoKey = /key = "([0-9a-f]{64})"\nusage = \["native"\]/.exec(demoTrust)[1];
  trust.keys.push({ name: "demo host", usage: ["native"], public: demoKey });
  trust.store += `\n[[key]]\nname = "demo host"\nkey = "${demoKey}"\nusage = ["native"]\n`;
  add("thread:demo", [{ log: "thread:demo", path: demo }], { row: { title: "Run the tests, then deploy.", kind: "thread", model: null, project: null, tokens: 0, tools: 1, turns: 4 } });

  // A native record whose texts are in a file of bodies beside it.
  const parts = join(folder, "parts.jsonl");
  const events = [["cognition_in", "Where does the customer live?"], ["cognition_out", "The address is in ticket 4711."]];
  const spoken = events.map(([type, text]) => JSON.stringify({ type, payload: { text } })).join("\n");
  execFileSync(THREADSEAL, ["record", parts, "--thread", "demo/parts", "--bodies", "detached", "--on-eof", "complete"], { cwd: folder, env: { ...process.env, HOME: folder, THREADSEAL_HOME: home }, input: `${spoken}\n`, stdio: ["pipe", "ignore", "ignore"] });
  // A server may give a head by its number and digest alone.
  const [, seq, , digest] = headOf(parts).split(":");
  add("thread:parts", [{ log: "thread:parts", path: parts, head: `${seq}:${digest}` }], { row: { title: "Look up an address", kind: "thread", model: null, project: null, tokens: null, tools: 0, turns: 1 } });

  // Real logs of other agents.
  const fixtures = join(new URL(".", import.meta.url).pathname, "fixtures");
  if (existsSync(fixtures)) {
    for (const name of readdirSync(fixtures)) {
      const own = join(folder, name);
      copyFileSync(join(fixtures, name), own);
      seal(own);
      const agent = name.split("-")[0];
      add(`${agent}:${name}`, [{ log: `${agent}:${name}`, path: own }], { row: { agent, title: `A session of ${agent}`, tokens: 9402, tools: 4, turns: 21 } });
    }
  }
  mkdirSync(join(folder, "out"));
  return {
    folder, home, run, sessions, trust, day: { path, sub, id, agent: day.agent },
    identity: join(folder, "ann.id"),
    report: (log) => {
      const found = sessions.flatMap((one) => one.logs).find((one) => one.log === log);
      return JSON.parse(run("verify", "--json", found.path));
    },
    drawings: {
      "run-1": {
        nodes: [{ id: "a", label: "checkout-fix", state: "verified", session: id }, { id: "b", label: "checkout-fix, resumed", state: "verified" }, { id: "c", label: "fork on ci-2", state: "forked" }, { id: "d", label: "review", state: "completed" }],
        edges: [{ from: "a", to: "b", kind: "continued" }, { from: "a", to: "c", kind: "fork" }, { from: "b", to: "d" }],
      },
    },
    end: () => rmSync(folder, { recursive: true, force: true }),
  };
}
