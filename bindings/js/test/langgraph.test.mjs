// LangGraph itself over a sealed saver: a run continues in another process, and nothing that was changed meanwhile is used.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, Command, DeltaChannel, END, MessagesAnnotation, MemorySaver, START, Send, StateGraph, interrupt } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { InputError, StateError, VerdictError } from "threadseal";
import { SealedSaver } from "threadseal/langgraph";
import { app, json, scene, tamper } from "./scene.mjs";

const of = (thread) => ({ configurable: { thread_id: thread } });

/** A graph that asks a scripted model, waits for a person, and pays. */
function payments(checkpointer, paid = []) {
  const model = new FakeListChatModel({ responses: ["I pay 10 euro."] });
  const State = Annotation.Root({ ...MessagesAnnotation.spec, euro: Annotation() });
  return new StateGraph(State)
    .addNode("ask", async ({ messages }) => {
      const { content } = await model.invoke(messages);
      return { messages: [new AIMessage({ content, tool_calls: [{ id: "c1", name: "pay", args: { euro: 10 } }] })], euro: 10 };
    })
    .addNode("approve", async ({ euro }) => {
      const answer = interrupt({ question: `Pay ${euro} euro?` });
      return { messages: [new HumanMessage(answer)] };
    })
    .addNode("pay", async ({ euro }) => {
      paid.push(euro);
      return { messages: [new ToolMessage({ tool_call_id: "c1", content: `paid ${euro}` })] };
    })
    .addEdge(START, "ask").addEdge("ask", "approve").addEdge("approve", "pay").addEdge("pay", END)
    .compile({ checkpointer });
}

/** A database, and the saver of a new process over it. */
function stored() {
  const made = scene();
  const database = made.file("graph.db");
  const process_ = () => new SealedSaver(SqliteSaver.fromConnString(database), { ...made.options, ledgers: "ledgers" });
  const change = (...statements) => {
    const { db } = SqliteSaver.fromConnString(database);
    for (const statement of statements) assert.ok(db.prepare(statement).run().changes > 0, statement);
    db.pragma("wal_checkpoint(TRUNCATE)");
    db.close();
  };
  return { ...made, database, process: process_, change };
}

const begin = (saver, thread = "t1") => payments(saver).invoke({ messages: [new HumanMessage("Pay 10 euro.")] }, of(thread));
/** The ledger that names all threads: no thread has the id "". */
const all = `ledger_sha256-${createHash("sha256").update("").digest("hex")}.jsonl`;
const verified = ({ options }) => {
  const { exit, results } = json(options, ["verify", "ledgers"]);
  return { exit, results: results.filter(({ path: file }) => !file.endsWith(all)) };
};

test("a run is sealed, waits, and continues in another process", async () => {
  const made = stored();
  const first = await begin(made.process());
  assert.equal(first.__interrupt__[0].value.question, "Pay 10 euro?");
  const paid = [];
  const saver = made.process();
  const second = await payments(saver, paid).invoke(new Command({ resume: "Yes." }), of("t1"));
  assert.deepEqual(paid, [10]);
  assert.deepEqual(second.messages.map(({ content }) => content), ["Pay 10 euro.", "I pay 10 euro.", "Yes.", "paid 10"]);
  const history = [];
  for await (const state of payments(saver).getStateHistory(of("t1"))) history.push(state);
  assert.deepEqual(history.map(({ next }) => next[0] ?? "end"), ["end", "pay", "approve", "ask", "__start__"]);
  const { exit, results } = verified(made);
  assert.deepEqual([exit, results.length, results[0].verdict, results[0].findings], [0, 1, "verified", []]);
  assert.ok(results[0].stats.events > 15);
});

test("it wraps a saver in memory, with subgraphs, parallel tasks and values of all kinds", async () => {
  const { options, home, cwd } = scene();
  const inner = new MemorySaver();
  const saver = new SealedSaver(inner, { ...options, ledgers: "ledgers" });
  const Inner = Annotation.Root({ item: Annotation(), out: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }) });
  const child = new StateGraph(Inner)
    .addNode("work", async ({ item }) => ({ out: [item.n * 2] })).addNode("more", async ({ item }) => ({ out: [item.n * 2 + 1] }))
    .addEdge(START, "work").addEdge("work", "more").addEdge("more", END).compile();
  const Outer = Annotation.Root({
    out: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }), kinds: Annotation(),
  });
  const kinds = { map: new Map([["b", 1], ["a", new Set([1, "x"])]]), bytes: Uint8Array.of(0, 255), at: new Date(0), none: undefined, big: { z: 1, a: [null, -0, 1e21] } };
  const graph = new StateGraph(Outer)
    .addNode("fan", async () => ({ kinds }))
    .addNode("child", child)
    .addNode("wait", async () => ({ out: [interrupt("go?")] }))
    .addEdge(START, "fan").addConditionalEdges("fan", () => [1, 2, 3].map((n) => new Send("child", { item: { n } })))
    .addEdge("child", "wait").addEdge("wait", END)
    .compile({ checkpointer: saver });
  await graph.invoke({}, of("Ünïcode/.. :\n"));
  const again = new SealedSaver(inner, { ...options, ledgers: "ledgers" });
  graph.checkpointer = again;
  const result = await graph.invoke(new Command({ resume: 99 }), of("Ünïcode/.. :\n"));
  assert.deepEqual(result.out.toSorted?.((a, b) => a - b) ?? [...result.out].sort((a, b) => a - b), [2, 3, 4, 5, 6, 7, 99]);
  assert.equal(verified({ options: { home, cwd } }).exit, 0);
  assert.ok(Object.keys(inner.storage["Ünïcode/.. :\n"]).length > 1, "namespaces of subgraphs");
  for await (const tuple of again.list(of("Ünïcode/.. :\n"))) assert.ok(tuple.checkpoint.id);
});

const last = "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 't1')";
const text = (column) => `CAST(${column} AS TEXT)`;
const swap = (table, column, from, to, where) =>
  `UPDATE ${table} SET ${column} = CAST(replace(${text(column)}, '${from}', '${to}') AS BLOB) WHERE ${text(column)} LIKE '%${from}%' AND ${where}`;
const ATTACKS = {
  "a sum in the newest checkpoint": [swap("checkpoints", "checkpoint", '"euro":10', '"euro":90', `checkpoint_id = ${last}`)],
  "a message in the newest checkpoint": [swap("checkpoints", "checkpoint", "I pay 10 euro.", "I pay 90 euro.", `checkpoint_id = ${last}`)],
  "the metadata": [swap("checkpoints", "metadata", '"step":1', '"step":0', `checkpoint_id = ${last}`)],
  "a parent": [`UPDATE checkpoints SET parent_checkpoint_id = checkpoint_id WHERE checkpoint_id = ${last}`],
  "a question that waits": [swap("writes", "value", "Pay 10", "Pay 1", `checkpoint_id = ${last}`)],
  "a write removed": [`DELETE FROM writes WHERE checkpoint_id = ${last}`],
  "a write added": [`INSERT INTO writes SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, 7, 'euro', 'json', CAST('90' AS BLOB) FROM writes WHERE checkpoint_id = ${last} LIMIT 1`],
  "the newest checkpoint removed": [`DELETE FROM checkpoints WHERE checkpoint_id = ${last}`],
  "all of the thread removed": ["DELETE FROM checkpoints WHERE thread_id = 't1'", "DELETE FROM writes WHERE thread_id = 't1'"],
  "a later checkpoint forged": [`INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, 'ffffffff' || substr(checkpoint_id, 9), checkpoint_id, type, CAST(replace(replace(${text("checkpoint")}, '"euro":10', '"euro":90'), checkpoint_id, 'ffffffff' || substr(checkpoint_id, 9)) AS BLOB), metadata FROM checkpoints WHERE checkpoint_id = ${last}`],
  "the checkpoints of another thread": ["DELETE FROM checkpoints WHERE thread_id = 't1'", "UPDATE checkpoints SET thread_id = 't1' WHERE thread_id = 't2'"],
};

for (const [name, statements] of Object.entries(ATTACKS)) {
  // T-JS-30
  test(`between two runs: ${name}`, async () => {
    const made = stored();
    await begin(made.process());
    await begin(made.process(), "t2");
    made.change(...statements);
    const paid = [];
    await assert.rejects(payments(made.process(), paid).invoke(new Command({ resume: "Yes." }), of("t1")), (error) => {
      assert.ok(error instanceof StateError, `${error}`);
      assert.match(error.message, /thread t1 is refused: .*hint: /);
      return true;
    });
    assert.deepEqual(paid, []);
    assert.equal(verified(made).exit, 0, "the ledger is as it was");
  });
}

// T-JS-31
test("between two runs: the ledger changed, cut, taken away, or the whole of an earlier time", async () => {
  const attacks = {
    tampered: (ledger) => tamper(ledger, '"checkpoint_ns":""', '"checkpoint_ns":"x"'),
    rolled_back: (ledger) => fs.writeFileSync(ledger, fs.readFileSync(ledger, "utf8").split("\n").slice(0, 5).join("\n") + "\n"),
    removed: (ledger) => fs.rmSync(path.dirname(ledger), { recursive: true }),
    earlier: (ledger, copies) => { for (const [file, bytes] of copies) fs.writeFileSync(file, bytes); },
  };
  for (const [name, attack] of Object.entries(attacks)) {
    const made = stored();
    const saver = made.process();
    await begin(saver);
    const files = [made.database, made.file("ledgers/ledger_t1.jsonl"), made.file("ledgers/ledger_t1.index")];
    made.change("UPDATE checkpoints SET type = type");
    const copies = files.map((file) => [file, fs.readFileSync(file)]);
    await payments(made.process()).invoke(new Command({ resume: "No." }), of("t1"));
    attack(files[1], copies);
    const paid = [];
    await assert.rejects(payments(made.process(), paid).invoke(new Command({ resume: "Yes." }), of("t1")), (error) => {
      assert.ok(error instanceof VerdictError, `${name}: ${error}`);
      assert.equal(error.report.verdict, name === "tampered" ? "tampered" : "rolled_back", name);
      return true;
    });
    assert.deepEqual(paid, []);
  }
});

// T-JS-32
test("a list that lacks a checkpoint is refused, also where a limit ends it", async () => {
  const made = stored();
  await begin(made.process());
  const saver = made.process();
  const all = [];
  for await (const { checkpoint } of saver.list(of("t1"))) all.push(checkpoint.id);
  assert.ok(all.length >= 3);
  const limited = [];
  for await (const { checkpoint } of saver.list(of("t1"), { limit: 2 })) limited.push(checkpoint.id);
  assert.deepEqual(limited, all.slice(0, 2));
  const before = { configurable: { thread_id: "t1", checkpoint_id: all[0] } };
  const older = [];
  for await (const { checkpoint } of saver.list(of("t1"), { before })) older.push(checkpoint.id);
  assert.deepEqual(older, all.slice(1));
  made.change(`DELETE FROM checkpoints WHERE checkpoint_id = '${all[1]}'`);
  const drain = async (options) => { for await (const tuple of made.process().list(of("t1"), options)) assert.ok(tuple); };
  for (const options of [undefined, { limit: 2 }, { before }]) await assert.rejects(drain(options), /does not have it/);
  await drain({ limit: 1 });
  // The walk over ancestors, by which channels of deltas are rebuilt, does not end early and in silence.
  const history = made.process().getDeltaChannelHistory({ config: of("t1"), channels: ["nothing"] });
  await assert.rejects(history, /does not have it/);
  // Before the first one is given, what is newer is looked for: also where a filter may have left it out.
  made.change(`DELETE FROM checkpoints WHERE checkpoint_id = '${all[0]}'`);
  for (const options of [undefined, { limit: 1 }, { filter: { source: "input" } }, { filter: { source: "nothing" } }]) {
    const given = [];
    const first = async () => { for await (const tuple of made.process().list(of("t1"), options)) given.push(tuple); };
    await assert.rejects(first(), /does not have it/);
    assert.deepEqual(given, []);
  }
});

// T-JS-33
test("a channel of deltas is rebuilt from sealed writes alone", async () => {
  const made = stored();
  const State = Annotation.Root({ log: () => new DeltaChannel((log, more) => log.concat(...more), { initialValueFactory: () => [] }) });
  const graph = (checkpointer) => new StateGraph(State)
    .addNode("a", async () => ({ log: ["pay 10"] })).addNode("b", async ({ log }) => ({ log: [`${log.length} before`] }))
    .addEdge(START, "a").addEdge("a", "b").addEdge("b", END).compile({ checkpointer });
  const expected = ["begin", "pay 10", "2 before"];
  assert.deepEqual((await graph(made.process()).invoke({ log: ["begin"] }, of("t1"))).log, expected);
  assert.deepEqual((await graph(made.process()).getState(of("t1"))).values.log, expected);
  made.change("UPDATE writes SET value = CAST(replace(CAST(value AS TEXT), 'pay 10', 'pay 90') AS BLOB) WHERE CAST(value AS TEXT) LIKE '%pay 10%'");
  await assert.rejects(graph(made.process()).getState(of("t1")), /a write of it is not the one that was sealed/);
});

/** A saver that fails at a call: before it stores, or after. */
function failing(inner, method, when) {
  const original = inner[method].bind(inner);
  inner[method] = async (...given) => {
    if (when === "after") await original(...given);
    throw new Error("the store is gone");
  };
  return inner;
}

// T-JS-34
test("a store that fails before or after it stored leaves a thread that continues", async () => {
  for (const method of ["put", "putWrites"]) {
    for (const when of ["before", "after"]) {
      const made = stored();
      await begin(made.process());
      const broken = new SealedSaver(failing(SqliteSaver.fromConnString(made.database), method, when), { ...made.options, ledgers: "ledgers" });
      await assert.rejects(payments(broken).invoke(new Command({ resume: "Yes." }), of("t1")), /the store is gone/);
      // Where the store has the last checkpoint, the run has ended, and another input begins the next one.
      const graph = payments(made.process());
      const { next } = await graph.getState(of("t1"));
      const input = next.length > 0 ? new Command({ resume: "Yes." }) : { messages: [new HumanMessage("Again.")] };
      const { messages } = await graph.invoke(input, of("t1"));
      assert.equal(messages.at(-1).content, next.length > 0 ? "paid 10" : "I pay 10 euro.", `${method} ${when}`);
      const { exit, results } = verified(made);
      assert.deepEqual([exit, results[0].findings], [0, []]);
    }
  }
});

// T-JS-34
test("a process that died between the ledger and the store leaves a thread that continues", async () => {
  for (const when of ["before", "after"]) {
    const made = stored();
    await begin(made.process());
    const inner = SqliteSaver.fromConnString(made.database);
    const original = inner.put.bind(inner);
    const reached = new Promise((resolve) => {
      inner.put = async (...given) => {
        if (when === "after") await original(...given);
        resolve();
        return new Promise(() => {});
      };
    });
    // This run never comes back, as that of a process which died.
    void payments(new SealedSaver(inner, { ...made.options, ledgers: "ledgers" })).invoke(new Command({ resume: "Yes." }), of("t1"));
    await reached;
    const { messages } = await payments(made.process()).invoke(new Command({ resume: "Yes." }), of("t1"));
    assert.equal(messages.at(-1).content, "paid 10", when);
    const { exit, results } = verified(made);
    assert.equal(exit, 0);
    assert.deepEqual(results[0].findings.map(({ code }) => code), ["step_unended"]);
  }
});

test("two processes take turns on one thread", async () => {
  const made = stored();
  const [one, two] = [made.process(), made.process()];
  await begin(one);
  await payments(two).invoke(new Command({ resume: "Yes." }), of("t1"));
  for (const saver of [one, two, two, one]) {
    await payments(saver).invoke({ messages: [new HumanMessage("Again.")] }, of("t1"));
    await payments(saver === one ? two : one).invoke(new Command({ resume: "Yes." }), of("t1"));
  }
  assert.equal(verified(made).exit, 0);
});

// T-JS-35
test("a deleted thread begins anew, and a thread that came back is refused", async () => {
  const made = stored();
  const saver = made.process();
  await begin(saver);
  const { db } = SqliteSaver.fromConnString(made.database);
  db.exec("CREATE TABLE backup AS SELECT * FROM checkpoints");
  db.close();
  await saver.deleteThread("t1");
  assert.equal(await made.process().getTuple(of("t1")), undefined);
  made.change("INSERT INTO checkpoints SELECT * FROM backup");
  await assert.rejects(made.process().getTuple(of("t1")), /it is not sealed/);
  made.change("DELETE FROM checkpoints");
  await begin(made.process());
  assert.ok(await made.process().getTuple(of("t1")));
  assert.equal(verified(made).exit, 0);
});

// T-JS-39
test("of a thread whose deletion failed nothing is used, and the next run ends the deletion", async () => {
  const made = stored();
  await begin(made.process());
  const busy = new SealedSaver(failing(SqliteSaver.fromConnString(made.database), "deleteThread", "before"), { ...made.options, ledgers: "ledgers" });
  await assert.rejects(busy.deleteThread("t1"), /the store is gone/);
  made.change(`DELETE FROM checkpoints WHERE checkpoint_id = ${last}`);
  const isRefused = /thread t1 is refused: its deletion began and did not end.*hint: call deleteThread again/;
  await assert.rejects(made.process().adopt("t1"), isRefused);
  assert.equal(await made.process().getTuple(of("t1")), undefined);
  assert.deepEqual(await drained(made.process(), of("t1")), []);
  assert.deepEqual(await drained(made.process(), { configurable: {} }), []);
  const rows = () => ids(made, "t1");
  assert.ok(rows().length > 0);
  const left = rows();
  await begin(made.process());
  assert.ok(rows().length > 0 && rows().every((id) => !left.includes(id)), "what was left is deleted");
  assert.equal((await payments(made.process()).invoke(new Command({ resume: "Yes." }), of("t1"))).messages.at(-1).content, "paid 10");
  assert.equal(verified(made).exit, 0);
});

/** What a list gives, to its end. */
async function drained(saver, config, options) {
  const found = [];
  for await (const { checkpoint } of saver.list(config, options)) found.push(checkpoint.id);
  return found;
}

/** The checkpoints that the store has of a thread. */
function ids(made, thread) {
  const { db } = SqliteSaver.fromConnString(made.database);
  const rows = db.prepare("SELECT checkpoint_id FROM checkpoints WHERE thread_id = ?").all(thread);
  db.close();
  return rows.map(({ checkpoint_id: id }) => id);
}

// T-JS-42
test("a list of all threads misses one that was removed as a whole, also with its ledger", async () => {
  const made = stored();
  for (const thread of ["t1", "t2", "a/b"]) await begin(made.process(), thread);
  const every = { configurable: {} };
  assert.equal((await drained(made.process(), every)).length, 9);
  const copy = path.join(made.cwd, "copy.db");
  made.change("UPDATE checkpoints SET type = type");
  fs.copyFileSync(made.database, copy);
  for (const thread of ["t1", "a/b"]) {
    made.change(`DELETE FROM checkpoints WHERE thread_id = '${thread}'`);
    for (const options of [undefined, { limit: 100 }, { filter: { source: "input" } }]) {
      const given = [];
      const list = async () => { for await (const tuple of made.process().list(every, options)) given.push(tuple); };
      await assert.rejects(list(), /does not have it/);
      assert.deepEqual(given, []);
    }
    fs.copyFileSync(copy, made.database);
  }
  assert.equal((await drained(made.process(), every)).length, 9);
  made.change("DELETE FROM checkpoints WHERE thread_id = 't1'");
  for (const end of ["jsonl", "index"]) fs.renameSync(made.file(`ledgers/ledger_t1.${end}`), made.file(`kept.${end}`));
  await assert.rejects(drained(made.process(), every), VerdictError);
  for (const end of ["jsonl", "index"]) fs.renameSync(made.file(`kept.${end}`), made.file(`ledgers/ledger_t1.${end}`));
  await made.process().deleteThread("t1");
  assert.equal((await drained(made.process(), every)).length, 6);
  // The ledger that names all threads is as hard to remove.
  fs.renameSync(made.file(`ledgers/${all}`), made.file("kept.jsonl"));
  await assert.rejects(drained(made.process(), every), VerdictError);
  fs.renameSync(made.file("kept.jsonl"), made.file(`ledgers/${all}`));
  assert.equal((await drained(made.process(), every)).length, 6);
});

// T-JS-43
test("a thread that is deleted during its run, at any step, is never refused", async () => {
  for (let number = 1, isBeside = true; isBeside; number += 1) {
    const made = stored();
    const inner = SqliteSaver.fromConnString(made.database);
    const saver = new SealedSaver(inner, { ...made.options, ledgers: "ledgers" });
    let left = number;
    let deleted;
    const step = async () => {
      left -= 1;
      if (left !== 0) return;
      deleted = saver.deleteThread("t1");
      await Promise.race([deleted, new Promise((resolve) => setTimeout(resolve, 5))]);
    };
    for (const method of ["put", "putWrites", "getTuple"]) {
      const original = inner[method].bind(inner);
      inner[method] = async (...given) => {
        await step();
        const found = await original(...given);
        await step();
        return found;
      };
    }
    assert.ok(await begin(saver));
    await deleted;
    isBeside = deleted !== undefined;
    if (!isBeside) assert.ok(number > 10, `${number}`);
    await drained(made.process(), of("t1"));
    await made.process().getTuple(of("t1"));
    assert.ok(await payments(made.process()).invoke({ messages: [new HumanMessage("Again.")] }, of("t1")));
    assert.equal(verified(made).exit, 0);
    await saver.close();
  }
});

// T-JS-43
test("a deletion and runs of two processes, and their readers, are never refused", async () => {
  const made = stored();
  const savers = [made.process(), made.process(), made.process(), made.process()];
  await begin(savers[0]);
  let isOver = false;
  const refusals = [];
  let reads = 0;
  const again = async (work) => {
    while (!isOver) {
      // Writers that never rest may keep a reader from the end of a ledger.
      await work().catch((error) => /changes while it is read/.test(error.message) || refusals.push(error));
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
  };
  const read = async () => {
    await savers[2].getTuple(of("t1"));
    await drained(savers[2], of("t1"));
    reads += 1;
  };
  const working = [again(() => begin(savers[0])), again(() => savers[1].deleteThread("t1")), again(() => savers[3].deleteThread("t1")), again(read)];
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  isOver = true;
  await Promise.all(working);
  assert.deepEqual(refusals.map(String), []);
  assert.ok(reads > 3);
  await begin(made.process());
  await drained(made.process(), of("t1"));
  for (const saver of savers) await saver.close();
});

// T-JS-43
test("a process that died in a deletion leaves a thread that begins anew", async () => {
  for (const when of ["before", "after"]) {
    const made = stored();
    await begin(made.process());
    const inner = SqliteSaver.fromConnString(made.database);
    const original = inner.deleteThread.bind(inner);
    const reached = new Promise((resolve) => {
      inner.deleteThread = async (...given) => {
        if (when === "after") await original(...given);
        resolve();
        return new Promise(() => {});
      };
    });
    void new SealedSaver(inner, { ...made.options, ledgers: "ledgers" }).deleteThread("t1");
    await reached;
    const reader = made.process();
    assert.equal(await reader.getTuple(of("t1")), undefined);
    assert.deepEqual(await drained(reader, of("t1")), []);
    await begin(reader);
    const { messages } = await payments(made.process()).invoke(new Command({ resume: "Yes." }), of("t1"));
    assert.equal(messages.at(-1).content, "paid 10", when);
    // From then on an attacker is refused as before.
    made.change(`DELETE FROM checkpoints WHERE checkpoint_id = ${last}`);
    await assert.rejects(made.process().getTuple(of("t1")), /does not have it|went back/);
  }
});

// T-JS-41
test("no id of a thread takes the ledger of another thread", async () => {
  const made = stored();
  const victim = "tenant/1";
  await begin(made.process(), `sha256-${createHash("sha256").update(victim).digest("hex")}`);
  await begin(made.process(), victim);
  const { messages } = await payments(made.process()).invoke(new Command({ resume: "Yes." }), of(victim));
  assert.equal(messages.at(-1).content, "paid 10");
  assert.equal(verified(made).results.length, 2);
});

// T-JS-36
test("a node that changes what it stored changes nothing that is sealed", async () => {
  const { options } = scene();
  const saver = new SealedSaver(new MemorySaver(), { ...options, ledgers: "ledgers" });
  const shared = { euro: 10 };
  const State = Annotation.Root({ order: Annotation() });
  const graph = new StateGraph(State)
    .addNode("a", async () => ({ order: shared }))
    .addNode("b", async () => { shared.euro = 90; return {}; })
    .addEdge(START, "a").addEdge("a", "b").addEdge("b", END).compile({ checkpointer: saver });
  await graph.invoke({}, of("t1"));
  for await (const { checkpoint } of saver.list(of("t1"))) assert.ok(checkpoint.id);
});

/** A command that notes each start and its process. */
function counted({ options, file }) {
  fs.writeFileSync(file("counted"), `#!/bin/sh\necho "$$ $*" >>'${file("starts")}'\nexec '${options.command}' "$@"\n`, { mode: 0o755 });
  const starts = () => fs.readFileSync(file("starts"), "utf8").split("\n").filter((line) => line.includes("ledger append"));
  return { command: file("counted"), starts };
}

// T-JS-37
test("one process seals for all threads, and another one when it was killed", async () => {
  const made = scene();
  const { command, starts } = counted(made);
  const saver = new SealedSaver(new MemorySaver(), { ...made.options, command, ledgers: "ledgers" });
  await Promise.all(["t1", "t2", "t3"].map((thread) => begin(saver, thread)));
  assert.equal(starts().length, 1);
  process.kill(Number(starts()[0].split(" ")[0]), "SIGKILL");
  const resumed = () => payments(saver).invoke(new Command({ resume: "Yes." }), of("t1"));
  // It may be noticed by the call that needs it.
  const { messages } = await resumed().catch(resumed);
  assert.equal(messages.at(-1).content, "paid 10");
  assert.equal(starts().length, 2);
  await saver.close();
  assert.ok(await saver.getTuple(of("t2")));
  await payments(saver).invoke(new Command({ resume: "Yes." }), of("t2"));
  assert.equal(starts().length, 3);
  await saver.close();
  assert.equal(verified(made).exit, 0);
});

test("a process that only waits for its saver ends", () => {
  const made = scene();
  const program = `import { MemorySaver } from "@langchain/langgraph";
    import { SealedSaver } from "threadseal/langgraph";
    const saver = new SealedSaver(new MemorySaver(), ${JSON.stringify({ ...made.options, ledgers: "ledgers" })});
    await saver.deleteThread("t1");
    console.log("done");`;
  const options = { cwd: app, encoding: "utf8", timeout: 8_000 };
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], options);
  assert.deepEqual([status, stdout], [0, "done\n"], stderr);
});

// T-JS-38
test("a thread that is older than its saver is adopted, and sealed from then on", async () => {
  const made = stored();
  await begin(SqliteSaver.fromConnString(made.database));
  await assert.rejects(made.process().getTuple(of("t1")), /it is not sealed/);
  const count = await made.process().adopt("t1");
  assert.equal(count, 3);
  assert.equal(await made.process().adopt("t1"), 0);
  const copy = path.join(made.cwd, "copy.db");
  made.change("UPDATE checkpoints SET type = type");
  fs.copyFileSync(made.database, copy);
  made.change(...ATTACKS["a sum in the newest checkpoint"]);
  await assert.rejects(payments(made.process()).invoke(new Command({ resume: "Yes." }), of("t1")), StateError);
  fs.copyFileSync(copy, made.database);
  const { messages } = await payments(made.process()).invoke(new Command({ resume: "Yes." }), of("t1"));
  assert.equal(messages.at(-1).content, "paid 10");
  assert.equal(verified(made).exit, 0);
});

test("threads of any name have ledgers of their own", async () => {
  const made = stored();
  const names = ["--help", ".", "..", "a/b", "A".repeat(300), "sha256-", "ü", " "];
  for (const name of names) await begin(made.process(), name);
  for (const name of names) {
    const { messages } = await payments(made.process()).invoke(new Command({ resume: "Yes." }), of(name));
    assert.equal(messages.at(-1).content, "paid 10");
  }
  const { exit, results } = verified(made);
  assert.deepEqual([exit, results.length], [0, names.length]);
});

test("a checkpoint without a thread, and a command that is missing, are errors that name the next step", async () => {
  const { options } = scene();
  const saver = new SealedSaver(new MemorySaver(), { ...options, ledgers: "ledgers" });
  await assert.rejects(saver.getTuple({ configurable: {} }), InputError);
  await assert.rejects(saver.putWrites(of("t1"), [], "task"), InputError);
  const lost = new SealedSaver(new MemorySaver(), { ...options, command: "/nowhere/threadseal", ledgers: "ledgers" });
  await assert.rejects(begin(lost), /cannot start \/nowhere\/threadseal.*hint: install ThreadSeal/);
  assert.equal(saver.getNextVersion(1), 2);
});
