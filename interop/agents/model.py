"""A model on loopback that lets agents run without a network.

It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini generateContent, as a stream or whole.
The newest messages name a task, and the answer follows from it:

    ADD                               one call of the client's shell, then a text
    FAIL                              two calls, of which one fails, then a text
    DELEGATE                          a call of the client's tool for subagents, whose task is ADD, then a text
    FILL                              as ADD, but the tokens of a full window are counted, so that the client shortens it
    HOLD                              one call, then nothing: the answer is kept back
    no task: a title, a summary       a text

A task is followed by the name of the agent in brackets, so that the check can wait for that agent's `HOLD`.
"""
import gzip
import itertools
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADD = "Add a line to the file."
FAIL = "Add a line to the file, and read another file that is missing."
DELEGATE = "Let a subagent add a line to the file."
FILL = "Add a line to the file, whatever its size."
HOLD = "Add a line to the file and wait."
# A task with its agent. The longest first: one begins like another.
TASKS = sorted((ADD, FAIL, DELEGATE, FILL, HOLD), key=len, reverse=True)
TASK = re.compile(f"({'|'.join(map(re.escape, TASKS))}) \\[([a-z-]+)\\]")

COMMAND = "echo line >> made-by-agent.txt; wc -l < made-by-agent.txt"
FAILING = "cat missing-file.txt; exit 3"
TEXT = "The file has one more line."
# How each agent calls its shell, and a subagent.
SHELLS = ("Bash", "bash", "shell", "shell_command", "exec_command", "run_shell_command")
SUBAGENTS = {
    "Agent": lambda prompt: {"description": "Add a line", "prompt": prompt, "subagent_type": "general-purpose"},
    # Only in the background a subagent of Qwen has a log of its own.
    "agent": lambda prompt: {"description": "Add a line", "prompt": prompt, "subagent_type": "general-purpose",
                             "run_in_background": True},
    # OpenCode and Copilot have other names for its kind.
    "task": lambda prompt: {"description": "Add a line", "prompt": prompt, "subagent_type": "general",
                            "agent_type": "general-purpose", "name": "adder"},
    "invoke_agent": lambda prompt: {"agent_name": "generalist", "prompt": prompt},
    "spawn_agent": lambda prompt: {"message": prompt},
}
# What a full window counts, and any other answer.
FULL, SMALL = 900_000, 10
NUMBERS = itertools.count(1)


def serve():
    """Starts the model; returns it."""
    server = Server(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def shell_arguments(shell, command):
    if shell == "exec_command":
        return {"cmd": command}
    if shell == "shell":
        return {"command": ["sh", "-c", command]}
    return {"command": command, "description": "Add a line"}


class Answer:
    """What the model answers: calls of tools or a text, and how many tokens it counts."""

    def __init__(self, server, parts, tools):
        """`parts` is the conversation as pairs of a kind (`user`, `model`, `call`, `result`) and a text."""
        # A summary counts what it sums up: Qwen keeps only one that is smaller.
        is_summary = bool(parts) and "<state_snapshot>" in parts[-1][1]
        self.calls, self.tokens = [], FULL if is_summary else SMALL
        places = [place for place, (kind, text) in enumerate(parts) if kind == "user" and TASK.search(text)]
        shell = next((name for name in tools if name in SHELLS), None)
        if not places or not shell:
            return
        task, agent = TASK.findall(parts[places[-1]][1])[-1]
        since = parts[places[-1] + 1:]
        kinds = {kind for kind, _ in since}
        if "model" in kinds or any(TEXT in text for kind, text in since if kind == "user"):
            # The turn is done, and perhaps summed up: what remains is to end it.
            return
        if task == FILL:
            self.tokens = FULL
        if "result" not in kinds:
            self.calls = first_calls(task, agent, shell, tools)
        elif "complete_task" in tools:
            self.calls = [("complete_task", {"result": {"response": TEXT}})]
        elif since[-1][0] == "result" and [text for kind, text in since if kind == "call"] == ["spawn_agent"]:
            self.calls = [("wait_agent", {"targets": re.findall(r'agent_id\W+([\w-]+)', since[-1][1])})]
        elif task == HOLD:
            server.hold(agent)


def first_calls(task, agent, shell, tools):
    subagent = next((name for name in tools if name in SUBAGENTS), None)
    if task == DELEGATE and subagent:
        return [(subagent, SUBAGENTS[subagent](f"{ADD} [{agent}]"))]
    commands = [COMMAND, FAILING] if task == FAIL else [COMMAND]
    return [(shell, shell_arguments(shell, command)) for command in commands]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.holds = {}

    def held(self, agent):
        """The event that an answer for this agent is kept back."""
        return self.holds.setdefault(agent, threading.Event())

    def hold(self, agent):
        """Keeps an answer back for ever."""
        self.held(agent).set()
        threading.Event().wait()

    def handle_error(self, request, client_address):
        # An agent that ends closes its connections at once.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send({})

    def do_GET(self):
        self.send({"object": "list", "data": [], "models": []})

    def do_POST(self):
        request, path = self.request_body(), self.path.split("?")[0]
        if path.endswith("/count_tokens") or path.endswith(":countTokens"):
            self.send({"input_tokens": 1, "totalTokens": 1})
        elif path.endswith("/messages"):
            self.answer_messages(request)
        elif path.endswith("/responses"):
            self.answer_responses(request)
        elif path.endswith("/chat/completions"):
            self.answer_completions(request)
        elif "enerateContent" in path:
            self.answer_gemini(request, "stream" in path)
        else:
            self.send({"error": {"message": f"no such path: {path}"}}, 404)

    # Anthropic Messages
    def answer_messages(self, request):
        parts = []
        for message in request["messages"]:
            by = "model" if message["role"] == "assistant" else "user"
            content = message["content"]
            for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
                kind = {"tool_use": "call", "tool_result": "result"}.get(part.get("type"), by)
                parts.append((kind, part["name"] if kind == "call" else json.dumps(part)))
        answer = Answer(self.server, parts, [tool.get("name") for tool in request.get("tools", [])])
        blocks, events = [], []
        for name, arguments in answer.calls:
            block = {"type": "tool_use", "id": f"toolu_{next(NUMBERS):020}", "name": name, "input": arguments}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
            blocks.append((block, {**block, "input": {}}, delta))
        if not blocks:
            blocks.append(({"type": "text", "text": TEXT}, {"type": "text", "text": ""}, {"type": "text_delta", "text": TEXT}))
        stop = "tool_use" if answer.calls else "end_turn"
        usage = {"input_tokens": answer.tokens, "output_tokens": 5}
        message = {"id": f"msg_{next(NUMBERS):020}", "type": "message", "role": "assistant", "model": request.get("model")}
        if not request.get("stream"):
            content = [block for block, _, _ in blocks]
            self.send({**message, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage})
            return
        begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        for index, (_, empty, delta) in enumerate(blocks):
            events += [
                {"type": "content_block_start", "index": index, "content_block": empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        end = {"stop_reason": stop, "stop_sequence": None}
        self.stream(
            {"type": "message_start", "message": begun},
            *events,
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        )

    # OpenAI Responses
    def answer_responses(self, request):
        parts = []
        for item in request["input"] if isinstance(request.get("input"), list) else []:
            kind = {"function_call": "call", "function_call_output": "result"}.get(item.get("type"))
            kind = kind or ("model" if item.get("role") == "assistant" else "user")
            parts.append((kind, item["name"] if kind == "call" else json.dumps(item)))
        spaces = {tool["name"]: tool.get("namespace") for tool in flattened(request.get("tools", [])) if "name" in tool}
        answer = Answer(self.server, parts, list(spaces))
        output = []
        for name, arguments in answer.calls:
            number = next(NUMBERS)
            space = {"namespace": spaces[name]} if spaces[name] else {}
            output.append({"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name,
                           "arguments": json.dumps(arguments), "status": "completed", **space})
        if not output:
            output.append({"type": "message", "id": f"msg_{next(NUMBERS)}", "role": "assistant", "status": "completed",
                           "content": [{"type": "output_text", "text": TEXT, "annotations": []}]})
        usage = {"input_tokens": answer.tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": answer.tokens + 5}
        whole = {"id": f"resp_{next(NUMBERS)}", "object": "response", "created_at": 0, "status": "completed",
                 "model": request.get("model"), "output": output, "usage": usage}
        if not request.get("stream"):
            self.send(whole)
            return
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        steps = [{"type": f"response.output_item.{step}", "output_index": index, "item": item}
                 for index, item in enumerate(output) for step in ("added", "done")]
        self.stream({"type": "response.created", "response": begun}, *steps, {"type": "response.completed", "response": whole})

    # OpenAI Chat Completions
    def answer_completions(self, request):
        parts = []
        for message in request["messages"]:
            called = message.get("tool_calls") or []
            kind = {"tool": "result", "assistant": "model"}.get(message["role"], "user")
            parts += [("call", call["function"]["name"]) for call in called] or [(kind, json.dumps(message["content"]))]
        answer = Answer(self.server, parts, [tool["function"]["name"] for tool in request.get("tools", [])])
        calls = [{"index": index, "id": f"call_{next(NUMBERS)}", "type": "function",
                  "function": {"name": name, "arguments": json.dumps(arguments)}}
                 for index, (name, arguments) in enumerate(answer.calls)]
        if calls:
            message, finish = {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
        else:
            message, finish = {"role": "assistant", "content": TEXT}, "stop"
        usage = {"prompt_tokens": answer.tokens, "completion_tokens": 5, "total_tokens": answer.tokens + 5}
        base = {"id": f"chatcmpl-{next(NUMBERS)}", "created": 0, "model": request.get("model")}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            self.send({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        chunk = {**base, "object": "chat.completion.chunk"}
        self.stream(
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**chunk, "choices": [], "usage": usage},
            end="data: [DONE]\n\n",
        )

    # Gemini generateContent
    def answer_gemini(self, request, is_stream):
        parts = []
        for content in request["contents"]:
            by = "model" if content.get("role") == "model" else "user"
            for part in content.get("parts", []):
                called = part.get("functionCall")
                kind = "call" if called else "result" if "functionResponse" in part else by
                parts.append((kind, called["name"] if called else json.dumps(part)))
        config = request.get("generationConfig") or {}
        tools = [tool["name"] for group in request.get("tools", []) for tool in group.get("functionDeclarations", [])]
        answer = Answer(self.server, parts, tools)
        if config.get("responseMimeType") == "application/json":
            parts = [{"text": json.dumps({"reasoning": "none", "next_speaker": "user", "model_choice": "flash",
                                          "complexity_reasoning": "none", "complexity_score": 1})}]
        elif answer.calls:
            parts = [{"functionCall": {"name": name, "args": arguments}} for name, arguments in answer.calls]
        else:
            parts = [{"text": TEXT}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": answer.tokens, "candidatesTokenCount": 5, "totalTokenCount": answer.tokens + 5}
        whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "none"}
        if is_stream:
            self.stream(whole)
        else:
            self.send(whole)

    # Transport
    def request_body(self):
        if self.headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return json.loads(body)

    def send(self, value, status=200):
        self.reply(json.dumps(value).encode(), "application/json", status)

    def stream(self, *events, end=""):
        lines = []
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            lines.append(f"{name}data: {json.dumps(event)}\n\n")
        self.reply("".join(lines + [end]).encode(), "text/event-stream", 200)

    def reply(self, body, kind, status):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def flattened(tools):
    """The tools, and those in a namespace with its name."""
    for tool in tools:
        yield tool
        for inner in tool.get("tools", []):
            yield {**inner, "namespace": tool["name"]}
