// What the sealed saver adds to a run of LangGraph.js: runs with another saver alone and with seals alternate.
//
//   THREADSEAL=COMMAND node bench-langgraph.mjs     in the folder `app` that run.sh made; BENCH_FOLDER is on a disk
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { SealedSaver } from "threadseal/langgraph";

const STEPS = Number(process.env.STEPS ?? 100);
const ROUNDS = 5;
const command = process.env.THREADSEAL ?? "threadseal";
const cwd = fs.mkdtempSync(path.join(process.env.BENCH_FOLDER ?? os.tmpdir(), "threadseal-bench-"));
const options = { command, cwd, home: path.join(cwd, "home"), ledgers: "ledgers" };
spawnSync(command, ["--home", options.home, "init", "-q"], { cwd });

/** The milliseconds of one step of a graph with one task a step. */
async function milliseconds(checkpointer, thread) {
  const State = Annotation.Root({ count: Annotation(), note: Annotation() });
  const graph = new StateGraph(State)
    .addNode("step", async ({ count }) => ({ count: count + 1, note: "x".repeat(1000) }))
    .addEdge(START, "step").addConditionalEdges("step", ({ count }) => (count < STEPS ? "step" : END))
    .compile({ checkpointer });
  const begin = performance.now();
  const { count } = await graph.invoke({ count: 0 }, { configurable: { thread_id: thread }, recursionLimit: STEPS + 10 });
  if (count !== STEPS) throw new Error(`${count} steps`);
  return (performance.now() - begin) / STEPS;
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const pairs = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const alone = await milliseconds(SqliteSaver.fromConnString(path.join(cwd, `alone-${round}.db`)), "t");
  const saver = new SealedSaver(SqliteSaver.fromConnString(path.join(cwd, `sealed-${round}.db`)), options);
  pairs.push([alone, await milliseconds(saver, `t${round}`)]);
  // A saver of an older version has none.
  await saver.close?.();
}
const verified = spawnSync(command, ["--home", options.home, "verify", "ledgers"], { cwd });
if (verified.status !== 0) throw new Error("the ledgers are not verified");
const [alone, sealed] = [0, 1].map((side) => median(pairs.map((pair) => pair[side])).toFixed(2));
console.log(`a step ${alone} ms alone, ${sealed} ms sealed, ratio ${median(pairs.map(([a, b]) => b / a)).toFixed(2)}`);
fs.rmSync(cwd, { recursive: true });
