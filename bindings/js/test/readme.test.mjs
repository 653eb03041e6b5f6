// The blocks of the README and of docs/javascript.md run as they are.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { app, command, root, run, scene } from "./scene.mjs";

const blocksOf = (file) => [...fs.readFileSync(file, "utf8").matchAll(/^```js\n(.*?)^```$/gms)].map(([, block]) => block);

/** Runs a block as a program of the app, after what the page takes as given; gives what it printed. */
function runBlock(block, given = "") {
  const { cwd, home, options } = scene();
  run(options, ["id", "export", "--name", "me", "-o", "me.id"]);
  const bin = path.join(cwd, "bin");
  fs.mkdirSync(bin);
  fs.symlinkSync(command, path.join(bin, "threadseal"));
  const program = path.join(app, `block-${process.pid}.mjs`);
  fs.writeFileSync(program, `${given}\n${block}`);
  const env = { ...process.env, THREADSEAL_HOME: home, PATH: `${bin}:${process.env.PATH}` };
  const printed = execFileSync(process.execPath, [program], { cwd, env, encoding: "utf8" });
  fs.rmSync(program);
  return { printed: printed.trim().split("\n"), options };
}

test("the start in five minutes", () => {
  const [start] = blocksOf(path.join(root, "bindings/js/README.md"));
  const { printed } = runBlock(start);
  assert.match(printed[0], /^[0-9a-f]{64}:\d+:\d+:[0-9a-f]{64}$/);
  assert.equal(printed[1], "verified");
  const events = printed.slice(2, -1).join("\n").match(/^\d+ \w+$/gm).map((line) => line.split(" ")[1]);
  assert.deepEqual(events.filter((type) => /^(cognition|tool)/.test(type)), ["cognition_in", "tool_call_start", "tool_call_result"]);
  assert.match(printed.at(-1), /^tampered \{ line: \d+, byte: \d+, turn: \d+ \}$/);
});

const TRUST = 'import { readFileSync } from "node:fs"; const trust = { name: "me.id", bytes: readFileSync("me.id") };';

test("the block for the AI SDK", () => {
  const [block] = blocksOf(path.join(root, "docs/javascript.md"));
  const { printed, options } = runBlock(block, `${TRUST}
    import { MockLanguageModelV4 } from "ai/test";
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
    const model = new MockLanguageModelV4({
      doGenerate: async ({ prompt }) => ({
        content: [{ type: "text", text: prompt.map(({ role }) => role).join(" ") }],
        finishReason: { unified: "stop", raw: "stop" }, usage, warnings: [],
      }),
    });`);
  assert.deepEqual(printed, ["user assistant user []"]);
  assert.equal(run(options, ["verify", "shop-1.jsonl", "shop-2.jsonl"]).status, 0);
});

test("the block for LangGraph", () => {
  const [, block] = blocksOf(path.join(root, "docs/javascript.md"));
  const { printed, options } = runBlock(block, `
    import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
    const builder = new StateGraph(Annotation.Root({ euro: Annotation() }))
      .addNode("pay", async ({ euro }) => ({ euro: -euro })).addEdge(START, "pay").addEdge("pay", END);`);
  assert.deepEqual(printed, ["{ euro: -10 }"]);
  assert.equal(run(options, ["verify", "ledgers"]).status, 0);
});
