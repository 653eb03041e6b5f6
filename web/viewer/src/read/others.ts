// Logs of Gemini CLI, Pi and OpenCode, and lines of no known agent.

import { type Json, type Mapped, type Mapper, type Part, NOTHING, changesOf, imagesOf, isObject, moment, number, text, textOf } from "./part.js";

export const GEMINI: Mapper = { format: "gemini", map: gemini };
export const PI: Mapper = { format: "pi", map: pi };
export const OPENCODE: Mapper = { format: "opencode", map: opencode };
export const PLAIN: Mapper = { format: "plain", map: plain };

// ----------------------------------------------------------------------------------------- Gemini

function gemini(value: Json): Mapped {
  if (value["projectHash"] !== undefined) {
    return { time: moment(value["startTime"]), parts: [], facts: { agent: "gemini" } };
  }
  const list = value["$set"]?.["messages"];
  if (Array.isArray(list)) {
    const all = list.filter(isObject).map(geminiMessage);
    return { time: all[0]?.time ?? null, parts: all.flatMap((one) => one.parts) };
  }
  return value["$set"] === undefined ? geminiMessage(value) : NOTHING;
}

function geminiMessage(value: Json): Mapped {
  const time = moment(value["timestamp"]);
  const id = text(value["id"]);
  const content = value["content"];
  if (value["type"] === "user") return { time, parts: geminiUser(content, id) };
  if (value["type"] !== "gemini") return { time, parts: [{ kind: "event", name: text(value["type"]), text: textOf(content ?? ""), key: id }] };
  const parts: Part[] = [];
  for (const [at, thought] of list(value["thoughts"]).entries()) {
    const words = [text(thought["subject"]), text(thought["description"])].filter((one) => one !== "").join("\n");
    parts.push({ kind: "reasoning", text: words, key: `${id}/thought/${at}` });
  }
  if (textOf(content ?? "") !== "") parts.push({ kind: "assistant", text: textOf(content), key: `${id}/text` });
  for (const call of list(value["toolCalls"])) {
    const name = text(call["name"]);
    parts.push({ kind: "tool", name, text: "", data: call["args"], call: text(call["id"]), key: `${id}/${text(call["id"])}`, changes: changesOf(name, call["args"]) });
    const answer = call["result"]?.[0]?.["functionResponse"]?.["response"];
    if (call["status"] !== undefined) {
      parts.push({ kind: "result", text: geminiAnswer(answer ?? call["resultDisplay"]), call: text(call["id"]), ok: call["status"] === "success" });
    }
  }
  const usage = isObject(value["tokens"]) ? value["tokens"] : {};
  const cached = number(usage["cached"]);
  return {
    time, parts, usageKey: id, tokens: { input: number(usage["input"]) - cached, cached, output: number(usage["output"]) + number(usage["thoughts"]) },
    ...(typeof value["model"] === "string" ? { model: value["model"] } : {}),
  };
}

function geminiUser(content: unknown, id: string): Part[] {
  const blocks = Array.isArray(content) ? content.filter(isObject) : [{ text: text(content) }];
  const parts: Part[] = [];
  for (const block of blocks) {
    const answer = block["functionResponse"];
    if (isObject(answer)) parts.push({ kind: "result", text: geminiAnswer(answer["response"]), call: text(answer["id"]), ok: answer["response"]?.["error"] === undefined });
  }
  const words = blocks.map((block) => text(block["text"])).filter((one) => one !== "").join("\n");
  if (words.startsWith("<session_context>")) parts.push({ kind: "system", name: "context", text: words, key: id });
  else if (words !== "") parts.push({ kind: "user", text: words, begins: true, key: id });
  return parts;
}

function geminiAnswer(answer: unknown): string {
  return isObject(answer) && typeof answer["output"] === "string" ? answer["output"] : text(answer);
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

// --------------------------------------------------------------------------------------------- Pi

function pi(value: Json): Mapped {
  const time = moment(value["timestamp"]);
  const message = isObject(value["message"]) ? value["message"] : null;
  if (value["type"] === "session") return { time, parts: [], facts: { agent: "pi", project: value["cwd"] } };
  if (value["type"] === "compaction") return { time, parts: [{ kind: "compaction", name: "compaction", text: text(value["summary"]) }] };
  if (message === null) return value["type"] === "model_change" ? { time, parts: [], model: text(value["modelId"]) } : NOTHING;
  const content = message["content"];
  if (message["role"] === "user") return { time, parts: [{ kind: "user", text: textOf(content), begins: true, images: imagesOf(content) }] };
  if (message["role"] === "toolResult") {
    return { time, parts: [{ kind: "result", text: textOf(content), call: text(message["toolCallId"]), ok: message["isError"] !== true, images: imagesOf(content) }] };
  }
  const usage = isObject(message["usage"]) ? message["usage"] : {};
  return {
    time,
    parts: list(content).map(piBlock),
    tokens: { input: number(usage["input"]) + number(usage["cacheWrite"]), cached: number(usage["cacheRead"]), output: number(usage["output"]) },
    cost: number(usage["cost"]?.["total"]),
    ...(typeof message["model"] === "string" ? { model: message["model"] } : {}),
  };
}

function piBlock(block: Json): Part {
  if (block["type"] === "toolCall") {
    const name = text(block["name"]);
    return { kind: "tool", name, text: "", data: block["arguments"], call: text(block["id"]), changes: changesOf(name, block["arguments"]) };
  }
  if (block["type"] === "thinking") return { kind: "reasoning", text: text(block["thinking"]) };
  return { kind: "assistant", text: text(block["text"]) };
}

// --------------------------------------------------------------------------------------- OpenCode

/** A message of an export: `{info, parts}`. */
function opencode(value: Json): Mapped {
  const info = isObject(value["info"]) ? value["info"] : {};
  const time = moment(info["time"]?.["created"]);
  const parts: Part[] = [];
  for (const part of list(value["parts"])) {
    const kind = part["type"];
    if (kind === "text") parts.push(info["role"] === "user" ? { kind: "user", text: text(part["text"]), begins: true } : { kind: "assistant", text: text(part["text"]) });
    else if (kind === "reasoning") parts.push({ kind: "reasoning", text: text(part["text"]) });
    else if (kind === "tool") parts.push(...opencodeTool(part));
    else if (kind === "compaction") parts.push({ kind: "compaction", name: "compaction", text: "" });
    else if (kind !== "step-start" && kind !== "step-finish") parts.push({ kind: "event", name: text(kind), text: "", data: part });
  }
  const usage = isObject(info["tokens"]) ? info["tokens"] : null;
  return {
    time, parts, cost: number(info["cost"]),
    ...(usage === null ? {} : { tokens: { input: number(usage["input"]), cached: number(usage["cache"]?.["read"]), output: number(usage["output"]) + number(usage["reasoning"]) } }),
    ...(typeof info["modelID"] === "string" ? { model: info["modelID"] } : {}),
  };
}

function opencodeTool(part: Json): Part[] {
  const state = isObject(part["state"]) ? part["state"] : {};
  const call = text(part["callID"]);
  const name = text(part["tool"]);
  const agent = typeof state["metadata"]?.["sessionId"] === "string" ? state["metadata"]["sessionId"] : undefined;
  return [
    { kind: "tool", name, text: "", data: state["input"], call, changes: changesOf(name, state["input"]), ...(agent === undefined ? {} : { agent }) },
    { kind: "result", text: text(state["output"] ?? state["error"]), call, ok: state["status"] !== "error" },
  ];
}

// ------------------------------------------------------------------------------------------ plain

/** A line of any program: the members that most programs have. */
function plain(value: Json): Mapped {
  const time = moment(value["timestamp"] ?? value["time"] ?? value["created_at"] ?? value["ts"]);
  const message = isObject(value["message"]) ? value["message"] : value;
  const role = text(message["role"] ?? value["role"]);
  const content = message["content"] ?? message["text"] ?? value["text"] ?? value["message"];
  const words = content === undefined ? "" : textOf(content);
  if (role === "user" || role === "human") return { time, parts: [{ kind: "user", text: words, begins: true }] };
  if (role === "assistant" || role === "model") return { time, parts: [{ kind: "assistant", text: words }] };
  if (role === "system" || role === "developer") return { time, parts: [{ kind: "system", name: role, text: words }] };
  const name = text(value["type"] ?? value["event"] ?? role) || "line";
  const { text: _, ...rest } = value;
  return { time, parts: [{ kind: "event", name, text: words, ...(Object.keys(rest).length > 0 ? { data: rest } : {}) }] };
}
