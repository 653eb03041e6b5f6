// Rollouts of Codex, with and without envelopes.

import { type Json, type Mapped, type Mapper, type Part, NOTHING, changesOf, imagesOf, isObject, moment, number, text, textOf } from "./part.js";

export const CODEX: Mapper = { format: "codex", map };

function map(value: Json): Mapped {
  const time = moment(value["timestamp"]);
  const payload = isObject(value["payload"]) ? value["payload"] : null;
  if (payload === null) return { time, parts: itemParts(value) };
  switch (value["type"]) {
    case "session_meta":
      return { time, parts: [], facts: { agent: "codex", version: payload["cli_version"], project: payload["cwd"] } };
    case "response_item":
      return { time, parts: itemParts(payload) };
    case "turn_context":
      return { time, parts: [], ...(typeof payload["model"] === "string" ? { model: payload["model"] } : {}) };
    case "compacted":
      return { time, parts: [{ kind: "compaction", name: "compaction", text: text(payload["message"]) }] };
    case "event_msg":
      return eventOf(payload, time);
    default:
      return NOTHING;
  }
}

/** Most events repeat what an item has. */
function eventOf(payload: Json, time: number | null): Mapped {
  const usage = payload["info"]?.["last_token_usage"];
  if (payload["type"] === "token_count" && isObject(usage)) {
    const cached = number(usage["cached_input_tokens"]);
    return { time, parts: [], tokens: { input: number(usage["input_tokens"]) - cached, cached, output: number(usage["output_tokens"]) } };
  }
  if (payload["type"] === "error" || payload["type"] === "turn_aborted") {
    return { time, parts: [{ kind: "event", name: text(payload["type"]), text: text(payload["message"] ?? payload["reason"]) }] };
  }
  return NOTHING;
}

function itemParts(item: Json): Part[] {
  const call = text(item["call_id"] ?? item["id"]);
  switch (item["type"]) {
    case "message":
      return [message(item)];
    case "reasoning": {
      const words = textOf(item["summary"]) || textOf(item["content"] ?? "");
      return [{ kind: "reasoning", text: words, ...(words === "" ? { name: "encrypted by the provider" } : {}) }];
    }
    case "function_call":
    case "custom_tool_call": {
      const input = typeof item["input"] === "string" ? item["input"] : parsed(text(item["arguments"]));
      const name = text(item["name"]);
      return [{ kind: "tool", name, text: "", data: input, call, changes: changesOf(name, input) }];
    }
    case "local_shell_call":
      return [{ kind: "tool", name: "shell", text: "", data: item["action"], call }];
    case "web_search_call":
      return [{ kind: "tool", name: "web_search", text: "", data: item["action"], call }];
    case "function_call_output":
    case "custom_tool_call_output": {
      const output = isObject(item["output"]) ? item["output"]["content"] ?? item["output"] : item["output"];
      const words = textOf(output);
      const exit = /(?:exited with code|"exit_code":) ?(\d+)/.exec(words)?.[1] ?? "0";
      return [{ kind: "result", text: words, call, ok: exit === "0", images: imagesOf(output) }];
    }
    default:
      return item["record_type"] !== undefined || item["type"] === undefined ? [] : [{ kind: "event", name: text(item["type"]), text: "", data: item }];
  }
}

function message(item: Json): Part {
  const words = textOf(item["content"]);
  if (item["role"] === "assistant") return { kind: "assistant", text: words };
  const isContext = item["role"] !== "user" || /^<(environment_context|user_instructions|permissions|skills_instructions|turn_aborted)/.test(words);
  if (isContext) return { kind: "system", name: text(item["role"]), text: words };
  return { kind: "user", text: words, begins: true, images: imagesOf(item["content"]) };
}

function parsed(words: string): unknown {
  try {
    return JSON.parse(words);
  } catch {
    return words;
  }
}
