// The Vercel AI SDK: a middleware that records each call of a model, and the conversation of a verified record.
//
//   prompt ─► tool_call_result…, cognition_in ─► model ─► cognition_reasoning, cognition_out, tool_call_start… ─► SDK
//
// A call begins when its prompt is durable. Its answer reaches the SDK when the answer is durable, so no tool runs for a
// call that is not recorded.

import type { LanguageModelMiddleware, ModelMessage } from "ai";
import { verifiedEvents, type EventOptions } from "./core.js";
import { StateError } from "./errors.js";
import { decode, encode, readableJson } from "./values.js";

/** What the middleware needs of a recorder. */
export interface Appender {
  append(type: string, payload: Record<string, unknown>): Promise<unknown>;
}

type Generate = NonNullable<LanguageModelMiddleware["wrapGenerate"]>;
type Call = Parameters<Generate>[0];
type Params = Call["params"];
type Result = Awaited<ReturnType<Generate>>;
type Content = Result["content"];
type Prompt = Params["prompt"];
type Message = Prompt[number];
type ToolPart = Extract<Message, { role: "tool" }>["content"][number];
type StreamResult = Awaited<ReturnType<NonNullable<LanguageModelMiddleware["wrapStream"]>>>;
type StreamPart = StreamResult["stream"] extends ReadableStream<infer Part> ? Part : never;

/** A middleware for `wrapLanguageModel` that records calls and streams of a model with this recorder. Use one for each
 * conversation: a prompt is recorded from the first message that differs from the prompt before. */
export function recordModel(recorder: Appender): LanguageModelMiddleware {
  const conversation = new Conversation({
    append: (type, payload) => recorder.append(type, readableJson(payload) as Record<string, unknown>),
  });
  return {
    specificationVersion: "v4",
    wrapGenerate: async ({ doGenerate, params, model }) => {
      const call = await conversation.begin(params, model);
      const result = await settled(call, doGenerate);
      await call.answer(result);
      return result;
    },
    wrapStream: async ({ doStream, params, model }) => {
      const call = await conversation.begin(params, model);
      const result = await settled(call, doStream);
      return { ...result, stream: recordStream(result.stream, call) };
    },
  };
}

async function settled<T>(call: RecordedCall, body: () => PromiseLike<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    await call.fail(error);
    throw error;
  }
}

/** The messages of the prompt before, by their texts. */
class Conversation {
  readonly #recorder: Appender;
  #known: string[] = [];
  #calls = 0;
  /** Events of two calls are not mixed before their models are asked. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(recorder: Appender) {
    this.#recorder = recorder;
  }

  begin(params: Params, model: Call["model"]): Promise<RecordedCall> {
    const begun = this.#turn.then(() => this.#begin(params, model));
    this.#turn = begun.catch(() => {});
    return begun;
  }

  async #begin(params: Params, model: Call["model"]): Promise<RecordedCall> {
    const { prompt, abortSignal: _signal, headers: _headers, ...settings } = params;
    const texts = prompt.map((message) => JSON.stringify(encode(message)));
    let from = 0;
    while (from < texts.length && texts[from] === this.#known[from]) from += 1;
    const call = this.#calls;
    const added = prompt.slice(from);
    const messages: unknown[] = [];
    for (const message of added) messages.push(await this.#entry(message, call));
    const last = prompt.at(-1);
    await this.#recorder.append("cognition_in", {
      role: last?.role === "tool" ? "tool" : "user",
      text: last === undefined || last.role === "tool" ? "" : readable(last.content),
      call, from, messages,
      model: { provider: model.provider, id: model.modelId },
      settings: encode(settings),
    });
    // Only what is recorded is known.
    this.#known = texts;
    this.#calls += 1;
    return new RecordedCall(this.#recorder, call);
  }

  /** Results of tools are events of their own, which readers of records know. */
  async #entry(message: Message, call: number): Promise<unknown> {
    if (message.role !== "tool") return encode(message);
    for (const part of message.content) await this.#recorder.append("tool_call_result", { ...outcome(part), call, part: encode(part) });
    const { content, ...rest } = message;
    return { ...(encode(rest) as object), parts: content.length };
  }
}

/** A result in the words of records. */
function outcome(part: ToolPart): Record<string, unknown> {
  if (part.type !== "tool-result") return { call_id: part.approvalId, output: part.approved ? "approved" : "denied" };
  const { type } = part.output;
  const value = "value" in part.output ? part.output.value : ("reason" in part.output && part.output.reason) || "denied";
  const output = typeof value === "string" ? value : JSON.stringify(encode(value));
  const isError = type === "error-text" || type === "error-json" || type === "execution-denied";
  return { call_id: part.toolCallId, output, ...(isError ? { error: output } : {}) };
}

/** The text of a message. */
function readable(content: string | readonly object[]): string {
  if (typeof content === "string") return content;
  return content.flatMap((part) => ("text" in part && typeof part.text === "string" ? [part.text] : [])).join("\n");
}

type Answer = Pick<Result, "content"> & Partial<Pick<Result, "finishReason" | "usage" | "providerMetadata" | "response" | "warnings">>;

/** One call of a model whose prompt is recorded. */
class RecordedCall {
  readonly #recorder: Appender;
  readonly #call: number;
  #answered: Promise<void> | undefined;

  constructor(recorder: Appender, call: number) {
    this.#recorder = recorder;
    this.#call = call;
  }

  /** Records an answer; `broken` is why it did not come whole. The first one counts. */
  answer(answer: Answer, broken?: unknown): Promise<void> {
    this.#answered ??= this.#record(answer, broken);
    return this.#answered;
  }

  async #record(answer: Answer, broken: unknown): Promise<void> {
    const { content, finishReason, usage, providerMetadata, response, warnings } = answer;
    const call = this.#call;
    const events: [string, Record<string, unknown>][] = [];
    for (const part of content) {
      if (part.type === "reasoning") events.push(["cognition_reasoning", { text: part.text, call }]);
    }
    events.push(["cognition_out", {
      text: content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join(""),
      model: response?.modelId ?? null,
      ...(usage === undefined ? {} : { usage: tokens(usage) }),
      ...(finishReason?.unified === "length" || broken !== undefined ? { truncated: true } : {}),
      ...(broken === undefined ? {} : { error: messageOf(broken) }),
      call,
      finish_reason: finishReason?.unified ?? null,
      content: encode(content),
      ...(providerMetadata === undefined ? {} : { provider_metadata: encode(providerMetadata) }),
      ...(response === undefined ? {} : { response: encode({ id: response.id, timestamp: response.timestamp, modelId: response.modelId }) }),
      ...(warnings === undefined || warnings.length === 0 ? {} : { warnings: encode(warnings) }),
    }]);
    for (const part of content) {
      if (part.type !== "tool-call" || part.providerExecuted === true) continue;
      events.push(["tool_call_start", { tool: part.toolName, call_id: part.toolCallId, input: parsed(part.input), call }]);
    }
    await Promise.all(events.map(([type, payload]) => this.#recorder.append(type, payload)));
  }

  /** Records that no answer came. */
  async fail(error: unknown): Promise<void> {
    await this.#recorder.append("model_error", { call: this.#call, message: messageOf(error) });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/** The arguments as JSON; as text where they are none. */
function parsed(input: string): unknown {
  try {
    return JSON.parse(input === "" ? "{}" : input) as unknown;
  } catch {
    return input;
  }
}

function tokens({ inputTokens, outputTokens }: Result["usage"]): Record<string, number> {
  const counts = {
    input_tokens: inputTokens.total, cached_tokens: inputTokens.cacheRead, cache_write_tokens: inputTokens.cacheWrite,
    output_tokens: outputTokens.total, reasoning_tokens: outputTokens.reasoning,
  };
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined)) as Record<string, number>;
}

/** Passes a stream on and records its whole answer. Calls of tools, and what comes after the first of them, are held back
 * until the answer is durable. */
function recordStream(source: ReadableStream<StreamPart>, call: RecordedCall): ReadableStream<StreamPart> {
  const reader = source.getReader();
  const answer = new StreamedAnswer();
  let held: StreamPart[] | undefined;
  let isLeft = false;
  return new ReadableStream<StreamPart>({
    async pull(controller) {
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          answer.add(value);
          if (value.type === "tool-call") held ??= [];
          // The end of the stream comes after its record.
          if (value.type === "finish") held ??= [];
          if (held === undefined) return controller.enqueue(value);
          held.push(value);
        }
      } catch (error) {
        await call.answer(answer.whole(), error);
        throw error;
      }
      await call.answer(answer.whole(), answer.isFinished ? undefined : (answer.error ?? "the stream ended before its answer"));
      if (isLeft) return;
      for (const part of held ?? []) controller.enqueue(part);
      controller.close();
    },
    async cancel(reason) {
      isLeft = true;
      const recorded = call.answer(answer.whole(), `the caller ended the stream: ${messageOf(reason ?? "no reason")}`);
      await Promise.all([recorded, reader.cancel(reason)]);
    },
  }, { highWaterMark: 0 });
}

/** The answer that the parts of a stream make. */
class StreamedAnswer {
  readonly #content: Content = [];
  /** The places of texts that still grow, by kind and id. */
  readonly #open = new Map<string, { text: string; providerMetadata?: unknown }>();
  readonly #rest: Omit<Answer, "content"> = {};
  isFinished = false;
  error: unknown;

  add(part: StreamPart): void {
    switch (part.type) {
      case "text-start": case "reasoning-start": {
        const type = part.type === "text-start" ? "text" : "reasoning";
        const item = { type, text: "", ...metadata(part) } as Extract<Content[number], { type: "text" | "reasoning" }>;
        this.#open.set(`${type} ${part.id}`, item);
        this.#content.push(item);
        break;
      }
      case "text-delta": case "reasoning-delta": case "text-end": case "reasoning-end": {
        const item = this.#open.get(`${part.type.split("-")[0]} ${part.id}`);
        if (item === undefined) break;
        if ("delta" in part) item.text += part.delta;
        // The last one counts: signatures come at the end.
        Object.assign(item, metadata(part));
        break;
      }
      case "response-metadata":
        this.#rest.response = { ...this.#rest.response, ...part };
        break;
      case "stream-start":
        this.#rest.warnings = part.warnings;
        break;
      case "finish":
        this.#rest.finishReason = part.finishReason;
        this.#rest.usage = part.usage;
        if (part.providerMetadata !== undefined) this.#rest.providerMetadata = part.providerMetadata;
        this.isFinished = true;
        break;
      case "error":
        this.error = part.error;
        break;
      case "tool-input-start": case "tool-input-delta": case "tool-input-end": case "ping": case "raw":
        break;
      default:
        this.#content.push(part);
    }
  }

  whole(): Answer {
    return { content: this.#content, ...this.#rest };
  }
}

function metadata(part: { providerMetadata?: unknown }): object {
  return part.providerMetadata === undefined ? {} : { providerMetadata: part.providerMetadata };
}

/** The conversation of a record, to continue it. */
export interface RecordedConversation {
  /** The system messages, as `system` or `instructions` of a call takes them. */
  system: string | undefined;
  /** All other messages, and the last answer. */
  messages: ModelMessage[];
  /** Calls of tools in the last answer: whether they ran is not known. */
  unresolved: { toolCallId: string; toolName: string }[];
}

/** The conversation of a record that `recordModel` made, from its verified events alone.
 *
 * @throws VerdictError where the record is not verified. */
export async function conversation(bytes: Uint8Array, options: EventOptions = {}): Promise<RecordedConversation> {
  let prompt: Message[] = [];
  let parts: ToolPart[] = [];
  let answer: Content | undefined;
  for await (const { value, line } of verifiedEvents(bytes, options)) {
    const payload = value.payload as Record<string, unknown>;
    if (value.event_type === "tool_call_result" && payload.part !== undefined) parts.push(decode(payload.part) as ToolPart);
    if (value.event_type === "cognition_in") {
      const { from, messages } = payload as { from?: number; messages?: object[] };
      if (from === undefined || messages === undefined || from > prompt.length) {
        throw new StateError(`line ${line} is not of recordModel`, { hint: "threadseal messages reads records of threads" });
      }
      prompt = prompt.slice(0, from);
      for (const entry of messages) prompt.push(messageOfEntry(entry, parts));
      parts = [];
      answer = undefined;
    }
    if (value.event_type === "cognition_out" && payload.truncated !== true) answer = decode(payload.content) as Content;
  }
  const last = answer === undefined ? [] : [assistantOf(answer)];
  const system = prompt.flatMap((message) => (message.role === "system" ? [message.content] : []));
  const calls = (answer ?? []).flatMap((part) => (part.type === "tool-call" && part.providerExecuted !== true ? [part] : []));
  return {
    system: system.length === 0 ? undefined : system.join("\n"),
    messages: [...prompt.filter(({ role }) => role !== "system"), ...last] as ModelMessage[],
    unresolved: calls.map(({ toolCallId, toolName }) => ({ toolCallId, toolName })),
  };
}

function messageOfEntry(entry: object, parts: ToolPart[]): Message {
  if (!("parts" in entry)) return decode(entry) as Message;
  const { parts: count, ...rest } = entry as { parts: number };
  return { ...(decode(rest) as object), content: parts.splice(0, count) } as Message;
}

/** An answer as the message that the next prompt has. */
function assistantOf(content: Content): object {
  const parts = content.flatMap((part): object[] => {
    const { providerMetadata, ...rest } = part as typeof part & { providerMetadata?: unknown };
    const given = providerMetadata === undefined ? {} : { providerOptions: providerMetadata };
    switch (rest.type) {
      case "text": case "reasoning": case "file": case "reasoning-file": case "custom":
        return [{ ...rest, ...given }];
      case "tool-call":
        return [{ ...rest, input: parsed(rest.input), ...given }];
      case "tool-result": {
        const { result, isError, ...call } = rest;
        return [{ ...call, output: { type: isError === true ? "error-json" : "json", value: result }, ...given }];
      }
      default:
        return [];
    }
  });
  return { role: "assistant", content: parts };
}
