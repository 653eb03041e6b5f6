// Transcripts of ThreadSeal and of Rye: events with a payload. Ledgers and scrolls, as far as they have turns.

import { type Json, type Mapped, type Mapper, type Part, changesOf, isObject, moment, number, text, textOf } from "./part.js";

export const NATIVE: Mapper = { format: "native", map: native };
export const SCROLL: Mapper = { format: "scroll", map: scroll };
export const LEDGER: Mapper = { format: "ledger", map: ledger };

function native(value: Json): Mapped {
  const payload = isObject(value["payload"]) ? value["payload"] : {};
  const type = text(value["event_type"]);
  const thread = text(value["thread_id"]);
  return {
    time: moment(value["timestamp"]),
    parts: eventParts(type, payload, value),
    facts: { thread },
    ...(typeof payload["model"] === "string" ? { model: payload["model"] } : {}),
    ...usageOf(payload),
  };
}

function usageOf(payload: Json): Partial<Mapped> {
  const usage = isObject(payload["usage"]) ? payload["usage"] : isObject(payload["tokens"]) ? payload["tokens"] : null;
  if (usage === null) return {};
  const tokens = { input: number(usage["input_tokens"] ?? usage["input"]), cached: number(usage["cached_tokens"]), output: number(usage["output_tokens"] ?? usage["output"]) };
  return { tokens, cost: number(usage["cost"] ?? payload["cost"]) };
}

function eventParts(type: string, payload: Json, value: Json): Part[] {
  if (isObject(value["threadseal_redacted"]) || payload["redacted"] !== undefined && Object.keys(payload).length === 1) {
    return [{ kind: "hole", name: "redacted", text: "", data: value }];
  }
  switch (type) {
    case "cognition_in":
      if (payload["role"] === "tool") return [{ kind: "system", name: "tool result", text: textOf(payload["text"] ?? payload["content"]) }];
      if (payload["role"] === "system") return [{ kind: "system", name: "system", text: textOf(payload["text"] ?? payload["content"]) }];
      return [{ kind: "user", text: textOf(payload["text"] ?? payload["content"]), begins: true }];
    case "cognition_out":
      return [{ kind: "assistant", text: textOf(payload["text"] ?? payload["content"]) }];
    case "cognition_reasoning":
      return [{ kind: "reasoning", text: textOf(payload["text"]) }];
    case "tool_call_start": {
      const name = text(payload["tool"] ?? payload["name"]);
      return [{ kind: "tool", name, text: "", data: payload["input"], call: text(payload["call_id"]), changes: changesOf(name, payload["input"]) }];
    }
    case "tool_call_result":
      return [{ kind: "result", text: textOf(payload["output"] ?? payload["error"]), call: text(payload["call_id"]), ok: payload["error"] === undefined }];
    case "checkpoint":
      return [{ kind: "seal", name: "seal", text: "", data: payload, turn: number(payload["turn"]) }];
    case "redacted":
      return [{ kind: "hole", name: "redacted", text: text(payload["why"] ?? payload["reason"]), data: payload }];
    case "tail_adopted":
    case "tail_dropped":
      return [{ kind: "hole", name: type === "tail_adopted" ? "set aside and adopted" : "set aside and dropped", text: text(payload["why"]), data: payload }];
    case "context_compacted":
    case "compaction":
      return [{ kind: "compaction", name: type, text: textOf(payload["summary"] ?? payload["text"] ?? "") }];
    default:
      return [{ kind: "event", name: type, text: textOf(payload["text"] ?? payload["message"] ?? ""), data: payload }];
  }
}

// ---------------------------------------------------------------------------- scrolls and ledgers

function scroll(value: Json): Mapped {
  const nanoseconds = Number(value["timestamp_ns"]);
  const role = text(value["role"]);
  const kind = role === "user" ? "user" : role === "assistant" ? "assistant" : "system";
  const parts: Part[] = [];
  for (const message of Array.isArray(value["messages"]) ? value["messages"].filter(isObject) : []) {
    if (message["role"] === "source") continue;
    parts.push({ kind, text: textOf(message["content"]), ...(kind === "user" ? { begins: true } : { name: role }), turn: number(value["turn"]) });
  }
  const model = isObject(value["model"]) ? text(value["model"]["id"]) : text(value["model"]);
  return { time: Number.isFinite(nanoseconds) ? nanoseconds / 1e6 : null, parts, ...(model === "" ? {} : { model }) };
}

function ledger(value: Json): Mapped {
  const name = [text(value["node_id"]), text(value["status"])].filter((one) => one !== "").join(": ");
  return { time: moment(value["ended_at"] ?? value["started_at"]), parts: [{ kind: "event", name, text: "", data: value }] };
}
