// Logs of Claude Code, and of agents that write the same shape.

import {
  type Json, type Mapped, type Mapper, type Part, NOTHING, changesOf, imagesOf, isObject, moment, number, text, textOf,
} from "./part.js";

export const CLAUDE: Mapper = { format: "claude-code", map };

/** Elements that the program puts before the words of a person; each ends with its own name. */
const CONTEXT = /^(?:\s*<(system-reminder|ide_[a-z_]{1,40}|local-command-[a-z]{1,40})>[^]*?<\/\1>\s*)+/;
/** Lines of these types hold no content. */
const SILENT = new Set(["file-history-snapshot", "last-prompt", "tools-used", "cost-state", "mode", "api-request-shape"]);

function map(value: Json): Mapped {
  const time = moment(value["timestamp"]);
  const type = text(value["type"]);
  const facts = { agent: "claude-code", version: value["version"], project: value["cwd"] };
  switch (type) {
    case "user":
      return { time, parts: userParts(value), facts };
    case "assistant":
      return { ...assistant(value), time, facts };
    case "summary":
      return { time, parts: [{ kind: "event", name: "summary", text: text(value["summary"]) }], facts: { title: value["summary"] } };
    case "ai-title":
    case "custom-title":
      return { time, parts: [], facts: { title: text(value["title"] ?? value["aiTitle"] ?? value["customTitle"]) } };
    case "system":
      return { time, parts: [systemPart(value)] };
    case "attachment":
      return { time, parts: [attachment(value)] };
    case "progress":
      return { time, parts: [progress(value)].filter((part) => part !== null) };
    case "queue-operation":
      return NOTHING;
    default:
      return SILENT.has(type) ? NOTHING : { time, parts: [{ kind: "event", name: type, text: "", data: value }] };
  }
}

function userParts(value: Json): Part[] {
  const message = isObject(value["message"]) ? value["message"] : {};
  const content = message["content"];
  if (value["isCompactSummary"] === true) return [{ kind: "compaction", name: "summary", text: textOf(content) }];
  if (typeof content === "string") return [spoken(content, value)];
  const parts: Part[] = [];
  const blocks = Array.isArray(content) ? content : [];
  for (const block of blocks) {
    if (isObject(block) && block["type"] === "tool_result") parts.push(result(block, value["toolUseResult"]));
  }
  const rest = blocks.filter((block) => !isObject(block) || block["type"] !== "tool_result");
  if (rest.length > 0) parts.push({ ...spoken(textOf(rest), value), images: imagesOf(rest) });
  return parts;
}

/** Words in the role of the user; some are the program's, not a person's. */
function spoken(content: string, value: Json): Part {
  const begins = value["isSidechain"] !== true || value["parentUuid"] === null;
  if (/<command-name>/.test(content)) return { kind: "user", text: content, begins };
  const context = CONTEXT.exec(content)?.[0] ?? "";
  const words = content.slice(context.length);
  if (value["isMeta"] === true || words === "" || /^<(local-command|system-reminder|ide_)/.test(words)) return { kind: "system", name: "context", text: content };
  return { kind: "user", text: words, begins, ...(context === "" ? {} : { context: context.trim() }) };
}

function result(block: Json, outcome: unknown): Part {
  const agent = isObject(outcome) && typeof outcome["agentId"] === "string" ? outcome["agentId"] : undefined;
  const patches = isObject(outcome) && Array.isArray(outcome["structuredPatch"]) ? outcome["structuredPatch"] : [];
  const path = isObject(outcome) ? text(outcome["filePath"]) : "";
  const lines = patches.filter(isObject).map((hunk) => {
    const head = `@@ -${number(hunk["oldStart"])},${number(hunk["oldLines"])} +${number(hunk["newStart"])},${number(hunk["newLines"])} @@`;
    return [head, ...(Array.isArray(hunk["lines"]) ? hunk["lines"].map(text) : [])].join("\n");
  });
  return {
    kind: "result",
    text: textOf(block["content"]),
    call: text(block["tool_use_id"]),
    ok: block["is_error"] !== true,
    images: imagesOf(block["content"]),
    ...(lines.length > 0 ? { changes: [{ path, patch: lines.join("\n") }] } : {}),
    ...(agent === undefined ? {} : { agent }),
  };
}

function assistant(value: Json): Pick<Mapped, "parts" | "model" | "tokens" | "usageKey"> {
  const message = isObject(value["message"]) ? value["message"] : {};
  const content = message["content"];
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : Array.isArray(content) ? content : [];
  const parts = blocks.filter(isObject).map(blockPart);
  const usage = isObject(message["usage"]) ? message["usage"] : null;
  return {
    parts,
    ...(typeof message["model"] === "string" ? { model: message["model"] } : {}),
    ...(typeof message["id"] === "string" ? { usageKey: message["id"] } : {}),
    ...(usage === null ? {} : {
      tokens: {
        input: number(usage["input_tokens"]) + number(usage["cache_creation_input_tokens"]),
        cached: number(usage["cache_read_input_tokens"]),
        output: number(usage["output_tokens"]),
      },
    }),
  };
}

function blockPart(block: Json): Part {
  switch (block["type"]) {
    case "text":
      return { kind: "assistant", text: text(block["text"]) };
    case "thinking":
      return { kind: "reasoning", text: text(block["thinking"]) };
    case "redacted_thinking":
      return { kind: "reasoning", text: "", name: "encrypted by the provider" };
    case "tool_use":
    case "server_tool_use":
      return {
        kind: "tool", name: text(block["name"]), text: "", data: block["input"], call: text(block["id"]),
        changes: changesOf(text(block["name"]), block["input"]),
      };
    default:
      return { kind: "event", name: text(block["type"]), text: "", data: block };
  }
}

function systemPart(value: Json): Part {
  const subtype = text(value["subtype"]);
  if (subtype === "compact_boundary") return { kind: "compaction", name: "compaction", text: textOf(value["content"]), data: value["compactMetadata"] };
  if (/hook/.test(subtype)) return { kind: "hook", name: subtype, text: textOf(value["content"]), data: value["hookInfos"] };
  return { kind: "event", name: subtype || "system", text: textOf(value["content"] ?? "") };
}

function attachment(value: Json): Part {
  const inner = isObject(value["attachment"]) ? value["attachment"] : {};
  const name = text(inner["type"]) || "attachment";
  return { kind: /hook/.test(name) ? "hook" : "system", name, text: textOf(inner["content"] ?? inner["addedLines"] ?? ""), data: inner };
}

function progress(value: Json): Part | null {
  const data = isObject(value["data"]) ? value["data"] : {};
  if (data["type"] !== "hook_progress") return null;
  return { kind: "hook", name: text(data["hookName"] ?? data["hookEvent"]) || "hook", text: text(data["command"]) };
}
