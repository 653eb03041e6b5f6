"""One reader for each format: what a file contains, counted in the simplest way that is right.

`count(path)` is (format, figures), or None where no reader knows the file. Figures: `user` and
`assistant` messages, `calls` and `results` of tools, tokens `in` (cached or not) and `out`
(reasoning included). A figure that a format cannot give is None.
"""

import collections
import json
import re


def count(path):
    data = path.read_bytes()
    if b"\0" in data[:4096]:
        return None
    text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
    lines, whole = [], None
    try:
        whole = json.loads(text)
    except ValueError:
        pass
    for line in text.split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            lines.append(value)
    if whole is not None and (len(lines) != 1 or not isinstance(whole, dict)):
        lines = []
    for name, reader in READERS:
        figures = reader(whole, lines, text)
        if figures is not None:
            return name, figures
    return None


def figures(user=None, assistant=None, calls=None, results=None, tokens=(None, None)):
    return dict(zip(("user", "assistant", "calls", "results", "in", "out"), (user, assistant, calls, results, *tokens)))


def blocks(content):
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def of_type(content, *names):
    return [block for block in blocks(content) if block.get("type") in names]


def number(value):
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def total(values, *names):
    return sum(number((value or {}).get(name)) for value in values for name in names)


# --- Claude Code


def claude_code(whole, lines, _text):
    if isinstance(whole, dict) and isinstance(whole.get("loglines"), list):
        lines = [line for line in whole["loglines"] if isinstance(line, dict)]
    if not any(
        (line.get("message") and line.get("type") in ("user", "assistant") and "parts" not in line["message"]
         and ("sessionId" in line or "parentUuid" in line or "timestamp" in line) and "session_id" not in line)
        or (line.get("type") in ("queue-operation", "summary", "file-history-snapshot") and ("sessionId" in line or "leafUuid" in line or "snapshot" in line))
        or ("parentUuid" in line and "uuid" in line and line.get("type") == "system" and line.get("subtype") and "systemPayload" not in line)
        for line in lines
    ):
        return None
    if any("parts" in (line.get("message") or {}) for line in lines if isinstance(line.get("message"), dict)):
        return None
    copies, messages = set(), []
    for line in lines:
        copy = json.dumps(line, sort_keys=True) if line.get("uuid") else None
        if copy and copy in copies:
            continue
        copies.add(copy)
        data = line.get("data") or {}
        if line.get("type") == "progress" and isinstance(data, dict) and isinstance(data.get("message"), dict):
            line = data["message"]
        if isinstance(line.get("message"), dict) and (line.get("type") or line["message"].get("role")) in ("user", "assistant"):
            messages.append((line.get("type") or line["message"].get("role"), line["message"], line))
    users, answers, usage, calls, results = 0, set(), {}, set(), 0
    seen = {}
    for place, (role, message, line) in enumerate(messages):
        content = message.get("content")
        found = [b for b in blocks(content) if "tool_result" in str(b.get("type"))]
        key = message.get("id") or place
        if role == "user":
            only = found and len(found) == len(content) and not line.get("planContent")
            wrapped = not found and line.get("toolUseResult") and content in ("", [], None)
            users += not only and not wrapped
            results += len(found) + (bool(line.get("toolUseResult")) and not found)
        else:
            answers.add(key)
            mine = {json.dumps(b, sort_keys=True) for b in found} - seen.setdefault(key, set())
            results += len(mine)
            seen[key] |= mine
        for index, block in enumerate(of_type(content, "tool_use", "server_tool_use", "mcp_tool_use")):
            calls.add((key, json.dumps(block, sort_keys=True)) if role == "assistant" else (place, index))
        if role == "assistant" and isinstance(message.get("usage"), dict):
            usage[key] = message["usage"]
    used = usage.values()
    tokens = (total(used, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"), total(used, "output_tokens"))
    return figures(None, len(answers), len(calls), results, tokens) if any(line.get("type") == "queue-operation" for line in lines) else figures(users, len(answers), len(calls), results, tokens)


# --- Codex


def codex(_whole, lines, _text):
    if not lines or not any(line.get("type") in ("session_meta", "response_item", "turn_context") or line.get("record_type") for line in lines[:20]):
        if not (lines and "instructions" in lines[0] and "id" in lines[0]):
            return None
    items = [line.get("payload") or {} if line.get("type") == "response_item" else line for line in lines]
    items = [item for item in items if item.get("type") not in ("event_msg", "turn_context", "session_meta")]
    calls = [i for i in items if str(i.get("type")).endswith("_call")]
    results = [i for i in items if str(i.get("type")).endswith("_call_output")]
    users = [i for i in items if i.get("type", "message") == "message" and i.get("role") == "user"]
    spent, last = [0, 0], None
    for line in lines:
        payload = line.get("payload") or {}
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if isinstance(info, dict) and info.get("last_token_usage") and info.get("total_token_usage") != last:
            last = info.get("total_token_usage")
            spent[0] += number(info["last_token_usage"].get("input_tokens"))
            spent[1] += number(info["last_token_usage"].get("output_tokens"))
    return figures(len(users), None, len(calls), len(results), tuple(spent))


# --- Gemini CLI


def gemini_cli(whole, lines, _text):
    first = whole if isinstance(whole, dict) else (lines or [{}])[0]
    if not ("sessionId" in first and "projectHash" in first):
        return None
    messages = {}
    listed = whole.get("messages", []) if isinstance(whole, dict) and "messages" in whole else []
    for place, line in enumerate([{"$set": {"messages": listed}}] if listed else lines):
        inner = line["$set"].get("messages", []) if isinstance(line.get("$set"), dict) else [line]
        for index, message in enumerate(inner):
            if isinstance(message, dict) and message.get("type"):
                messages[message.get("type"), message.get("id") or (place, index)] = message
    users, calls, results, answers = 0, set(), set(), []
    for (kind, _), message in messages.items():
        content = message.get("content")
        responses = [b["functionResponse"] for b in blocks(content) if "functionResponse" in b]
        users += kind == "user" and not (responses and len(responses) == len(content))
        results.update(r.get("id") or json.dumps(r) for r in responses)
        calls.update(b["functionCall"].get("id") or json.dumps(b) for b in blocks(content) if "functionCall" in b)
        for call in message.get("toolCalls") or []:
            calls.add(call.get("id") or json.dumps(call))
            if call.get("result") is not None or call.get("resultDisplay") is not None:
                results.add(call.get("id") or json.dumps(call))
        if kind == "gemini":
            answers.append(message.get("tokens") or {})
    return figures(users, len(answers), len(calls), len(results), (total(answers, "input", "tool"), total(answers, "output", "thoughts")))


# --- Qwen Code


def qwen_code(_whole, lines, _text):
    ours = [line for line in lines if "uuid" in line and "sessionId" in line]
    if not any(isinstance(line.get("message"), dict) and "parts" in line["message"] for line in ours):
        return None
    users = [l for l in ours if l.get("type") == "user" and not all("functionResponse" in p for p in l["message"]["parts"])]
    answers = [l for l in ours if l.get("type") == "assistant"]
    parts = [p for l in ours if isinstance(l.get("message"), dict) for p in l["message"].get("parts") or []]
    used = [l.get("usageMetadata") or {} for l in answers]
    calls = sum("functionCall" in p for p in parts)
    results = sum("functionResponse" in p for p in parts)
    thoughts = 0
    for u in used:
        apart = number(u.get("promptTokenCount")) + number(u.get("candidatesTokenCount")) + number(u.get("thoughtsTokenCount"))
        thoughts += number(u.get("thoughtsTokenCount")) if apart == u.get("totalTokenCount") else 0
    tokens = (total(used, "promptTokenCount", "toolUsePromptTokenCount"), total(used, "candidatesTokenCount") + thoughts)
    return figures(len(users), len(answers), calls, results, tokens)


# --- pi and OpenClaw


def pi_messages(messages):
    calls = sum(len(of_type(m.get("content"), "toolCall")) for m in messages)
    shells = sum(m.get("role") == "bashExecution" for m in messages)
    results = sum(m.get("role") == "toolResult" for m in messages)
    answers = [m for m in messages if m.get("role") == "assistant"]
    used = [m.get("usage") or {} for m in messages]
    tokens = (total(used, "input", "cacheRead", "cacheWrite"), total(used, "output"))
    return figures(sum(m.get("role") == "user" for m in messages), len(answers), calls + shells, results + shells, tokens)


def pi(_whole, lines, _text):
    if not lines or lines[0].get("type") != "session" or "cwd" not in lines[0]:
        return None
    summaries = [{"usage": line.get("usage")} for line in lines if line.get("type") in ("compaction", "branch_summary")]
    return pi_messages([line.get("message") or {} for line in lines if line.get("type") == "message"] + summaries)


def openclaw(_whole, lines, _text):
    if not any(line.get("type") in ("agent.start", "agent.end", "message.in", "llm.usage", "tool.start") for line in lines):
        return None
    messages = {json.dumps(m, sort_keys=True): m for l in lines for m in l.get("messages") or []}
    found = pi_messages(list(messages.values()))
    key = lambda name, arguments: json.dumps([name, arguments], sort_keys=True)
    asked = collections.Counter(key(b.get("name"), b.get("arguments")) for m in messages.values() for b in of_type(m.get("content"), "toolCall"))
    begun = collections.Counter(key(l.get("toolName"), l.get("params")) for l in lines if l.get("type") == "tool.start")
    said = [b.get("text") for m in messages.values() for b in blocks(m.get("content"))] + [m.get("content") for m in messages.values()]
    sent = {l.get("content") for l in lines if l.get("type") in ("message.out", "message.sending")} - {t for t in said if isinstance(t, str)}
    return {**found, "user": None, "assistant": found["assistant"] + len(sent), "calls": sum((asked | begun).values())}


# --- Cline, Continue, Copilot CLI


def cline(whole, lines, _text):
    if not (isinstance(whole, dict) and isinstance(whole.get("messages"), list) and "updated_at" in whole and "sessionId" in whole):
        return None
    messages = whole["messages"]
    calls = sum(len(of_type(m.get("content"), "tool_use")) for m in messages)
    results = sum(len(of_type(m.get("content"), "tool_result")) for m in messages)
    def only(m):
        return bool(of_type(m.get("content"), "tool_result")) and len(of_type(m.get("content"), "tool_result")) == len(m["content"])
    users = sum(m.get("role") == "user" and not only(m) for m in messages)
    used = [m.get("metrics") or {} for m in messages]
    tokens = (total(used, "inputTokens"), total(used, "outputTokens"))
    return figures(users, sum(m.get("role") == "assistant" for m in messages), calls, results, tokens)


def continue_dev(whole, _lines, _text):
    if not (isinstance(whole, dict) and isinstance(whole.get("history"), list) and "sessionId" in whole and "workspaceDirectory" in whole):
        return None
    messages = [item.get("message") or {} for item in whole["history"]]
    states = [s for item in whole["history"] for s in item.get("toolCallStates") or []]
    calls = sum(len(m.get("toolCalls") or []) for m in messages if m.get("role") == "assistant")
    results = sum(m.get("role") == "tool" for m in messages)
    done = sum(bool(state.get("output")) for state in states)
    usage = whole.get("usage") or {}
    tokens = (number(usage.get("promptTokens")), number(usage.get("completionTokens")))
    return figures(sum(m.get("role") == "user" for m in messages), sum(m.get("role") == "assistant" for m in messages), calls, max(results, done), tokens)


def copilot_cli(_whole, lines, _text):
    if not any(l.get("type") in ("session.start", "user.message", "assistant.message") and "data" in l for l in lines[:3]):
        return None
    of = lambda kind: [l.get("data") or {} for l in lines if l.get("type") == kind]
    requests = {r.get("toolCallId") for m in of("assistant.message") for r in m.get("toolRequests") or []}
    requests |= {d.get("toolCallId") for d in of("tool.execution_start")}
    results = {d.get("toolCallId") for d in of("tool.execution_complete")}
    used = [d.get("usage") or {} for d in of("session.usage_record")] + of("assistant.usage")
    if not used:
        ends = [d.get("accountingSnapshot") or d for d in of("session.shutdown")]
        used = [m.get("usage") or {} for d in ends[-1:] for m in (d.get("modelMetrics") or {}).values()]
    tokens = (total(used, "inputTokens"), total(used, "outputTokens")) if used else (None, None)
    return figures(len(of("user.message")), len(of("assistant.message")), len(requests), len(results), tokens)


# --- OpenAI Agents, pydantic-ai


def run_state(whole, _lines, _text):
    if not (isinstance(whole, dict) and "$schemaVersion" in whole and "original_input" in whole):
        return None
    usage = (whole.get("context") or {}).get("usage") or {}
    asked = whole.get("original_input")
    items = asked if isinstance(asked, list) else [{"role": "user"}] if asked else []
    raw = {}
    for group in ("generated_items", "session_items"):
        for item in whole.get(group) or []:
            raw[json.dumps(item.get("raw_item"), sort_keys=True)] = item.get("raw_item") or {}
    for response in whole.get("model_responses") or []:
        for item in response.get("output") or []:
            raw.setdefault(json.dumps(item, sort_keys=True), item)
    items = items + list(raw.values())
    kinds = [str(i.get("type")) for i in items]
    calls = sum(k.endswith("_call") or k == "program" for k in kinds)
    results = sum(k.endswith("_output") for k in kinds)
    users = sum(i.get("role") == "user" for i in items)
    return figures(users, None, calls, results, (number(usage.get("input_tokens")), number(usage.get("output_tokens"))))


def session_items(whole, lines, _text):
    items = whole if isinstance(whole, list) else lines
    kinds = [i.get("type") for i in items if isinstance(i, dict)]
    if not items or not any(k in ("function_call", "function_call_output", "reasoning") for k in kinds) or any("payload" in i for i in items):
        return None
    if isinstance(whole, dict):
        return None
    return figures(sum(i.get("role") == "user" for i in items), None, sum(str(k).endswith("_call") for k in kinds), sum(str(k).endswith("_call_output") for k in kinds))


def pydantic_ai(whole, _lines, _text):
    if not (isinstance(whole, list) and whole and all(isinstance(m, dict) and m.get("kind") in ("request", "response") for m in whole)):
        return None
    parts = [p for m in whole for p in m.get("parts") or []]
    of = lambda *kinds: sum(p.get("part_kind") in kinds for p in parts)
    used = [m.get("usage") or {} for m in whole if m["kind"] == "response"]
    tokens = (total(used, "input_tokens", "request_tokens"), total(used, "output_tokens", "response_tokens"))
    users = sum(any(p.get("part_kind") == "user-prompt" for p in m["parts"]) for m in whole if m["kind"] == "request")
    return figures(users, sum(m["kind"] == "response" for m in whole), of("tool-call", "builtin-tool-call"), of("tool-return", "builtin-tool-return") + sum(p.get("part_kind") == "retry-prompt" and bool(p.get("tool_name")) for p in parts), tokens)


# --- Aider


def aider(_whole, _lines, text):
    if not re.search(r"^#### ", text, re.M) or not re.search(r"^(# aider chat started|> aider |> Aider )", text, re.I | re.M):
        return None
    user, assistant, role, said = 0, 0, None, ""
    for line in text.split("\n"):
        if line.startswith("# aider chat started at "):
            now = None
        elif line.startswith("#### "):
            now = "user"
        elif line.startswith("> ") or line == ">":
            now = "tool"
        else:
            now = "assistant"
        if now != role:
            assistant += role == "assistant" and bool(said.strip())
            user += now == "user"
            role, said = now, ""
        said += line
    assistant += role == "assistant" and bool(said.strip())
    return figures(user, assistant, 0, 0)


# --- documents of one trajectory


def atif(whole, lines, _text):
    found = []

    def collect(value):
        if isinstance(value, dict) and str(value.get("schema_version", "")).startswith("ATIF-"):
            found.append(value)
            for inner in value.get("subagent_trajectories") or []:
                collect(inner)
        elif isinstance(value, list):
            [collect(v) for v in value]
        elif isinstance(value, dict):
            [collect(v) for v in value.values()]

    collect(whole if whole is not None else lines)
    if not found:
        return None
    steps = [s for t in found for s in t.get("steps") or []]
    calls = sum(len(s.get("tool_calls") or []) for s in steps)
    results = sum(len((s.get("observation") or {}).get("results") or []) for s in steps)
    used = [s.get("metrics") or {} for s in steps if not s.get("is_copied_context")]
    tokens = (total(used, "prompt_tokens"), total(used, "completion_tokens"))
    return figures(sum(s.get("source") == "user" for s in steps), sum(s.get("source") == "agent" for s in steps), calls, results, tokens)


def opencode(whole, _lines, _text):
    if not (isinstance(whole, dict) and "info" in whole and isinstance(whole.get("messages"), list)):
        return None
    roles = [m["info"]["role"] for m in whole["messages"]]
    tools = [p for m in whole["messages"] for p in m["parts"] if p.get("type") == "tool"]
    done = [t for t in tools if t["state"].get("output") is not None or t["state"].get("error") is not None]
    used = [p["tokens"] for m in whole["messages"] for p in m["parts"] if p.get("type") == "step-finish"]
    caches = [u.get("cache") for u in used]
    tokens = (total(used, "input") + total(caches, "read", "write"), total(used, "output", "reasoning"))
    return figures(roles.count("user"), roles.count("assistant"), len(tools), len(done), tokens)


def inspect_log(whole, _lines, _text):
    if not (isinstance(whole, dict) and "eval" in whole and "version" in whole):
        return None
    return figures()


def swe_agent(whole, _lines, _text):
    if not (isinstance(whole, dict) and isinstance(whole.get("trajectory"), list) and "history" in whole):
        return None
    stats = (whole.get("info") or {}).get("model_stats") or {}
    return figures(tokens=(number(stats.get("tokens_sent")), number(stats.get("tokens_received"))))


# --- traces


def plain(value):
    """The JSON of an OTLP value."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    (kind, inner), = value.items()
    if kind == "intValue":
        return int(inner)
    if kind == "arrayValue":
        return [plain(v) for v in inner.get("values") or []]
    if kind == "kvlistValue":
        return {p["key"]: plain(p["value"]) for p in inner.get("values") or []}
    return inner


def otlp(whole, lines, _text):
    documents = lines or ([whole] if isinstance(whole, dict) else [])
    if not any("resourceSpans" in d or "resourceLogs" in d for d in documents):
        return None
    spans, logs = {}, []
    for document in documents:
        for resource in document.get("resourceSpans") or []:
            for scope in resource.get("scopeSpans") or []:
                for span in scope.get("spans") or []:
                    spans[span.get("traceId"), span.get("spanId")] = span
        for resource in document.get("resourceLogs") or []:
            for scope in resource.get("scopeLogs") or []:
                logs.extend(scope.get("logRecords") or [])
    facts = lambda record: {a["key"]: plain(a["value"]) for a in record.get("attributes") or [] if "value" in a}
    named = [(span.get("name"), facts(span), span) for span in spans.values()]
    events = [(f.get("event.name") or log.get("eventName"), f) for log in logs for f in [facts(log)]]
    calls, results, used = set(), set(), {}
    for name, fact, span in named:
        call = fact.get("gen_ai.tool.call.id") or fact.get("tool_use_id") or fact.get("tool_call.id")
        kind = fact.get("gen_ai.operation.name") or fact.get("openinference.span.kind") or fact.get("span.type")
        if kind in ("execute_tool", "tool", "TOOL"):
            calls.add(call or span["spanId"])
            if any(k in fact for k in ("gen_ai.tool.call.result", "output.value")):
                results.add(call or span["spanId"])
        incoming = [k for k in ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "input_tokens") if k in fact]
        outgoing = [k for k in ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion", "output_tokens") if k in fact]
        if incoming or outgoing:
            cached = number(fact.get("cache_read_tokens")) + number(fact.get("cache_creation_tokens"))
            key = fact.get("request_id") or (span.get("traceId"), span["spanId"])
            used[key] = (number(fact.get(incoming[0])) + cached if incoming else 0, number(fact.get(outgoing[0])) if outgoing else 0, span)
    for name, fact in events:
        if name in ("tool_result", "codex.tool_result"):
            calls.add(fact.get("tool_use_id") or fact.get("call_id"))
            if fact.get("output"):
                results.add(fact["call_id"])
        if name == "api_request":
            cached = sum(int(fact.get(k) or 0) for k in ("cache_read_tokens", "cache_creation_tokens"))
            used[fact.get("request_id")] = (int(fact["input_tokens"]) + cached, int(fact["output_tokens"]), None)
        if name == "codex.sse_event" and not any(str(f.get("target", "")).startswith("codex_") for _, f, _ in named) and fact.get("event.kind") == "response.completed":
            used["sse", len(used)] = (int(fact.get("input_token_count") or 0), int(fact.get("output_token_count") or 0), None)
    above = {(s.get("traceId"), s.get("parentSpanId")) for _, _, s in used.values() if s}
    parents = {(s.get("traceId"), s["spanId"]): (s.get("traceId"), s.get("parentSpanId")) for s in spans.values()}
    covered = set()
    for place in above:
        while place in parents and place not in covered:
            covered.add(place)
            place = parents[place]
    kept = [u for u in used.values() if not (u[2] and (u[2].get("traceId"), u[2]["spanId"]) in covered)]
    return figures(None, None, len(calls) if calls else None, len(results) if results else None, (sum(u[0] for u in kept), sum(u[1] for u in kept)))


def langfuse(whole, _lines, _text):
    if not (isinstance(whole, dict) and "trace" in whole and isinstance(whole.get("observations"), list)):
        return None
    tools = [o for o in whole["observations"] if o.get("type") == "TOOL"]
    return figures(calls=None, results=None, tokens=langfuse_tokens(whole["observations"])) if tools or True else None


def langfuse_tokens(observations):
    def spent(observation):
        usage = observation.get("usageDetails") or observation.get("usage") or {}
        get = lambda name: number(usage.get(name))
        cached = get("input_cache_read") + get("input_cached_tokens")
        reasoning = get("output_reasoning") + get("output_reasoning_tokens")
        apart = get("total") == get("input") + get("output") + cached + reasoning
        return get("input") + cached * apart, get("output") + reasoning * apart
    own = {o["id"]: spent(o) for o in observations}
    parents = {o["id"]: o.get("parentObservationId") for o in observations}
    covered = set()
    for name, figures_of in own.items():
        place = parents.get(name)
        while figures_of != (0, 0) and place and place not in covered:
            covered.add(place)
            place = parents.get(place)
    kept = [value for name, value in own.items() if name not in covered]
    return sum(v[0] for v in kept), sum(v[1] for v in kept)


READERS = (
    ("qwen-code", qwen_code),
    ("claude-code", claude_code),
    ("codex", codex),
    ("gemini-cli", gemini_cli),
    ("pi", pi),
    ("openclaw", openclaw),
    ("copilot-cli", copilot_cli),
    ("cline", cline),
    ("continue", continue_dev),
    ("openai-agents", run_state),
    ("openai-agents", session_items),
    ("pydantic-ai", pydantic_ai),
    ("opencode", opencode),
    ("atif", atif),
    ("swe-agent", swe_agent),
    ("inspect", inspect_log),
    ("otlp", otlp),
    ("langfuse", langfuse),
    ("aider", aider),
)
