// The AI SDK itself with a scripted model: what is recorded, when, and what is refused later.
import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { generateText, stepCountIs, streamText, tool, wrapLanguageModel } from "ai";
import { MockLanguageModelV4, convertArrayToReadableStream } from "ai/test";
import { StateError, VerdictError, verifiedEvents } from "threadseal";
import { conversation, recordModel } from "threadseal/ai";
import { Recorder } from "threadseal/node";
import { z } from "zod";
import { json, run, scene, tamper } from "./scene.mjs";

const usage = {
  inputTokens: { total: 30, noCache: 20, cacheRead: 10, cacheWrite: undefined },
  outputTokens: { total: 7, text: 5, reasoning: 2 },
};
const callOf = (id, input) => ({ type: "tool-call", toolCallId: id, toolName: "pay", input: JSON.stringify(input) });
const text = (words) => ({ type: "text", text: words });
const answer = (...content) => ({
  content, usage, warnings: [], response: { id: "r", modelId: "scripted-1", timestamp: new Date(0) },
  finishReason: { unified: content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop", raw: "x" },
});
const parts = (content) => [
  { type: "stream-start", warnings: [] },
  { type: "response-metadata", id: "r", modelId: "scripted-1", timestamp: new Date(0) },
  ...content.flatMap((part, at) => part.type === "tool-call" ? [part] : [
    { type: `${part.type}-start`, id: `${at}` },
    ...[...part.text].map((delta) => ({ type: `${part.type}-delta`, id: `${at}`, delta })),
    { type: `${part.type}-end`, id: `${at}`, ...(part.providerMetadata ? { providerMetadata: part.providerMetadata } : {}) },
  ]),
  { type: "finish", usage, finishReason: { unified: content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop", raw: "x" } },
];

/** A model that gives these answers, and keeps the prompts that it got. */
function scripted(...answers) {
  const prompts = [];
  const next = ({ prompt }) => {
    prompts.push(structuredClone(prompt));
    const given = answers.shift();
    if (given instanceof Error) throw given;
    return given;
  };
  const model = new MockLanguageModelV4({
    modelId: "asked-1",
    doGenerate: async (options) => answer(...next(options)),
    doStream: async (options) => {
      const given = next(options);
      return { stream: given instanceof ReadableStream ? given : convertArrayToReadableStream(parts(given)) };
    },
  });
  return { model, prompts };
}

/** A tool that notes what the record had when it ran. */
function payer(file) {
  const seen = [];
  const pay = tool({
    inputSchema: z.object({ euro: z.number() }),
    execute: async ({ euro }, { toolCallId }) => {
      seen.push({ euro, recorded: fs.readFileSync(file, "utf8").includes(`"call_id":"${toolCallId}"`) });
      return { paid: euro };
    },
  });
  return { tools: { pay }, seen };
}

async function recorded(file, key) {
  const events = [];
  for await (const { value } of verifiedEvents(fs.readFileSync(file), { trust: key })) events.push([value.event_type, value.payload]);
  return events.filter(([type]) => /^(cognition|tool_call|model_error)/.test(type));
}

const TYPES = ["cognition_in", "cognition_reasoning", "cognition_out", "tool_call_start", "tool_call_result", "cognition_in", "cognition_out"];
const thought = { type: "reasoning", text: "They want 10.", providerMetadata: { scripted: { signature: "s" } } };
const script = () => scripted([thought, text("I pay."), callOf("c1", { euro: 10 })], [text("Done.")]);

for (const way of ["generateText", "streamText"]) {
  test(`${way}: prompt, answer, calls and results are recorded, each before the next step`, async () => {
    const { options, key, file } = scene();
    const recorder = await Recorder.start("shop/1", options);
    const { model, prompts } = script();
    const { tools, seen } = payer(file("shop-1.jsonl"));
    const asked = {
      model: wrapLanguageModel({ model, middleware: recordModel(recorder) }),
      system: "Be brief.", prompt: "Pay 10 euro.", tools, stopWhen: stepCountIs(3), temperature: 0.5,
    };
    const result = way === "generateText" ? await generateText(asked) : streamText(asked);
    assert.equal(await result.text, "Done.");
    assert.deepEqual(seen, [{ euro: 10, recorded: true }]);
    await recorder.end("completed");
    assert.equal(json(options, ["verify", "shop-1.jsonl"]).exit, 0);
    const events = await recorded(file("shop-1.jsonl"), key);
    assert.deepEqual(events.map(([type]) => type), TYPES);
    const [asked1, reasoning, out, start, outcome, asked2, out2] = events.map(([, payload]) => payload);
    assert.deepEqual([asked1.text, asked1.role, asked1.from, asked1.settings.temperature], ["Pay 10 euro.", "user", 0, 0.5]);
    assert.deepEqual(asked1.model, { provider: "mock-provider", id: "asked-1" });
    assert.equal(reasoning.text, "They want 10.");
    assert.deepEqual([out.text, out.model, out.finish_reason], ["I pay.", "scripted-1", "tool-calls"]);
    assert.deepEqual(out.usage, { input_tokens: 30, cached_tokens: 10, output_tokens: 7, reasoning_tokens: 2 });
    assert.deepEqual([start.tool, start.call_id, start.input], ["pay", "c1", { euro: 10 }]);
    assert.deepEqual([outcome.call_id, outcome.output], ["c1", '{"paid":10}']);
    // Of the second prompt only what is new.
    assert.deepEqual([asked2.from, asked2.messages.length, asked2.role], [2, 2, "tool"]);
    assert.equal(out2.text, "Done.");

    // The conversation of the record is what the model saw, and its last answer.
    const { system, messages, unresolved } = await conversation(fs.readFileSync(file("shop-1.jsonl")), { trust: key });
    assert.equal(system, "Be brief.");
    const [, ...rest] = prompts[1];
    assert.deepEqual(messages.slice(0, -1).map(plain), rest.map(plain));
    assert.deepEqual(messages.at(-1), { role: "assistant", content: [text("Done.")] });
    assert.deepEqual(unresolved, []);
    assert.match(run(options, ["show", "shop-1.jsonl"]).stdout, /I pay\./);
  });
}

/** Without the members that are undefined. */
const plain = (value) => JSON.parse(JSON.stringify(value));

test("a second run continues the conversation of a verified record", async () => {
  const { options, key, file } = scene();
  const first = await Recorder.start("shop/1", options);
  const bytes = Uint8Array.of(1, 2, 255);
  const one = scripted([text("A picture.")]);
  await generateText({
    model: wrapLanguageModel({ model: one.model, middleware: recordModel(first) }), system: "Be brief.",
    messages: [{ role: "user", content: [{ type: "text", text: "What is it?" }, { type: "file", mediaType: "image/png", data: bytes }] }],
  });
  await first.end("suspended");

  const second = await Recorder.resume("shop-1.jsonl", { ...options, thread: "shop/2" });
  const past = await conversation(fs.readFileSync(file("shop-1.jsonl")), { trust: key });
  const two = scripted([text("Yes.")]);
  await generateText({
    model: wrapLanguageModel({ model: two.model, middleware: recordModel(second) }), system: past.system,
    messages: [...past.messages, { role: "user", content: "Sure?" }],
  });
  await second.end("completed");
  const [prompt] = two.prompts;
  assert.deepEqual(plain(prompt.slice(0, 2)), plain(one.prompts[0]));
  assert.deepEqual(prompt[1].content[1].data, { type: "data", data: bytes });
  assert.deepEqual(prompt.slice(2).map(({ role }) => role), ["assistant", "user"]);
  assert.equal(json(options, ["verify", "shop-1.jsonl", "shop-2.jsonl"]).exit, 0);
});

// T-JS-20
test("a record that was changed between two runs is refused, and so is its conversation", async () => {
  const { options, key, file } = scene();
  const recorder = await Recorder.start("shop/1", options);
  const { model } = script();
  const { tools } = payer(file("shop-1.jsonl"));
  await generateText({ model: wrapLanguageModel({ model, middleware: recordModel(recorder) }), prompt: "Pay 10 euro.", tools, stopWhen: stepCountIs(3) });
  await recorder.end("suspended");
  tamper(file("shop-1.jsonl"), '{\\"paid\\":10}', '{\\"paid\\":90}');
  const refused = (error) => error instanceof VerdictError && error.report.verdict === "tampered";
  await assert.rejects(Recorder.resume("shop-1.jsonl", { ...options, thread: "shop/2" }), refused);
  await assert.rejects(conversation(fs.readFileSync(file("shop-1.jsonl")), { trust: key }), refused);
});

// T-JS-21
test("no model is asked, and no tool runs, for what is not recorded", async () => {
  const { options, file } = scene();
  const recorder = await Recorder.start("shop/1", options);
  for (const failing of ["cognition_in", "tool_call_start"]) {
    const { model, prompts } = script();
    const { tools, seen } = payer(file("shop-1.jsonl"));
    const append = async (type, payload) => {
      if (type === failing) throw new Error("disk full");
      return recorder.append(type, payload);
    };
    for (const call of [generateText, async (asked) => {
      let failure;
      const result = streamText({ ...asked, onError: ({ error }) => { failure = error; } });
      await result.consumeStream();
      if (failure) throw failure;
    }]) {
      const before = prompts.length;
      await assert.rejects(call({ model: wrapLanguageModel({ model, middleware: recordModel({ append }) }), prompt: "Pay.", tools, stopWhen: stepCountIs(3), maxRetries: 0 }), /disk full/);
      assert.deepEqual([prompts.length - before, seen.length], [failing === "cognition_in" ? 0 : 1, 0]);
      if (failing === "tool_call_start") break;
    }
  }
  await recorder.end("error");
});

test("an error, a broken stream and a stream that is left are recorded, and continue no conversation", async () => {
  const { options, key, file } = scene();
  const recorder = await Recorder.start("shop/1", options);
  const endless = new ReadableStream({
    start: (controller) => controller.enqueue({ type: "text-start", id: "1" }),
    pull: async (controller) => {
      await new Promise((done) => setTimeout(done, 5));
      controller.enqueue({ type: "text-delta", id: "1", delta: "la" });
    },
  });
  const torn = new ReadableStream({
    start(controller) {
      controller.enqueue({ type: "text-start", id: "1" });
      controller.enqueue({ type: "text-delta", id: "1", delta: "half" });
    },
    pull: (controller) => controller.error(new Error("reset")),
  });
  const { model } = scripted(new Error("overloaded"), torn, endless);
  const asked = { model: wrapLanguageModel({ model, middleware: recordModel(recorder) }), prompt: "Sing.", maxRetries: 0, onError: () => {} };
  await assert.rejects(generateText(asked), /overloaded/);
  await streamText(asked).consumeStream();
  const stop = new AbortController();
  for await (const words of streamText({ ...asked, abortSignal: stop.signal }).textStream) {
    if (words !== "") stop.abort();
  }
  await recorder.seal();
  await recorder.end("completed");
  const events = await recorded(file("shop-1.jsonl"), key);
  assert.deepEqual(events.map(([type]) => type), ["cognition_in", "model_error", "cognition_in", "cognition_out", "cognition_in", "cognition_out"]);
  const outs = events.filter(([type]) => type === "cognition_out").map(([, payload]) => payload);
  assert.match(events[1][1].message, /overloaded/);
  assert.deepEqual([outs[0].text, outs[0].truncated, outs[1].truncated], ["half", true, true]);
  assert.match(outs[0].error, /reset/);
  assert.match(outs[1].text, /^(la)+$/);
  const { messages } = await conversation(fs.readFileSync(file("shop-1.jsonl")), { trust: key });
  assert.deepEqual(messages.map(({ role }) => role), ["user"]);
});

test("a call without a result is named, and a record of another program is none", async () => {
  const { options, key, file } = scene();
  const recorder = await Recorder.start("shop/1", options);
  const { model } = scripted([callOf("c7", { euro: 1 })]);
  const pay = tool({ inputSchema: z.object({ euro: z.number() }) });
  await generateText({ model: wrapLanguageModel({ model, middleware: recordModel(recorder) }), prompt: "Pay.", tools: { pay } });
  await recorder.end("suspended");
  const { unresolved } = await conversation(fs.readFileSync(file("shop-1.jsonl")), { trust: key });
  assert.deepEqual(unresolved, [{ toolCallId: "c7", toolName: "pay" }]);
  const other = await Recorder.start("other/1", options);
  await other.append("cognition_in", { role: "user", text: "Pay." });
  await other.end();
  await assert.rejects(conversation(fs.readFileSync(file("other-1.jsonl")), { trust: key }), StateError);
});

// T-JS-22
test("a text that was cut within a character is recorded, and continues", async () => {
  const made = scene();
  const cut = "a page that ends in \ud83d";
  const call = { type: "tool-call", toolCallId: "c1", toolName: "pay", input: '{"euro":10,"\\ud83d":"\\ude00 cut"}' };
  const { model, prompts } = scripted([text(cut), call], [text("Done.")]);
  const recorder = await Recorder.start("chat/1", { ...made.options, file: "chat.jsonl" });
  const wrapped = wrapLanguageModel({ model, middleware: recordModel(recorder) });
  const messages = [{ role: "user", content: cut }];
  const { content } = await generateText({ model: wrapped, messages, maxRetries: 0 });
  assert.equal(content[0].text, cut);
  await generateText({ model: wrapped, messages: [...messages, { role: "assistant", content: cut }, { role: "user", content: "And?" }], maxRetries: 0 });
  await recorder.end();
  const again = await conversation(fs.readFileSync(made.file("chat.jsonl")), { trust: [made.key] });
  const contents = again.messages.map(({ content }) => (typeof content === "string" ? content : content[0].text));
  assert.deepEqual(contents, [cut, cut, "And?", "Done."]);
  assert.equal(prompts[1][0].content[0].text, cut);
});

test("values of tools never become other values", async () => {
  const { options, key, file } = scene();
  const recorder = await Recorder.start("shop/1", options);
  const odd = { value: { $bytes: "AQ==" }, nested: [{ $object: { $url: "x" } }, { $date: "no date" }], $many: 1, when: "2026" };
  const { model, prompts } = scripted([callOf("c1", { euro: 1 })], [text("Done.")]);
  const pay = tool({ inputSchema: z.object({ euro: z.number() }), execute: async () => odd });
  await generateText({ model: wrapLanguageModel({ model, middleware: recordModel(recorder) }), prompt: "Pay.", tools: { pay }, stopWhen: stepCountIs(3) });
  await recorder.end();
  const { messages } = await conversation(fs.readFileSync(file("shop-1.jsonl")), { trust: key });
  assert.deepEqual(messages[2].content[0].output.value, odd);
  assert.deepEqual(plain(messages.slice(0, 3)), plain(prompts[1]));
});
