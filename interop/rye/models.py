"""A server on loopback that answers as the models of four providers do, in streamed pieces.

    with Models(plan) as models:
        models.base_url("anthropic" | "openai_responses" | "openai" | "gemini")

`plan` is a function from a request, as `Asked`, to the answer: a text, or a list of (tool, input).
`models.requests` keeps each request, so that a check can inspect the input of a model.
"""

import itertools
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NUMBERS = itertools.count(1)


@dataclass
class Asked:
    """A request in any protocol."""

    protocol: str
    tools: list
    results: int
    text: str

    def tool(self, part):
        """The name of the tool that contains `part`, as this protocol shows it."""
        return next(name for name in self.tools if part in name)


def asked(protocol, body):
    """The request in a body."""
    if protocol == "anthropic":
        tools = [tool["name"] for tool in body.get("tools", [])]
        blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
        results = sum(block["type"] == "tool_result" for block in blocks)
    elif protocol == "openai_responses":
        tools = [tool["name"] for tool in body.get("tools", [])]
        results = sum(item.get("type") == "function_call_output" for item in body["input"])
    elif protocol == "openai":
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        results = sum(message["role"] == "tool" for message in body["messages"])
    else:
        tools = [f["name"] for tool in body.get("tools", []) for f in tool.get("functionDeclarations", [])]
        results = sum("functionResponse" in part for c in body["contents"] for part in c["parts"])
    return Asked(protocol, tools, results, json.dumps(body))


def halves(text):
    """Two pieces, which clients must join."""
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


def anthropic(model, text, calls):
    usage = {"input_tokens": 100, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    yield "message_start", {"type": "message_start", "message": message}
    blocks = [({"type": "text", "text": ""}, "text_delta", "text", text)] if text else []
    for name, arguments in calls:
        block = {"type": "tool_use", "id": f"toolu_{next(NUMBERS)}", "name": name, "input": {}}
        blocks.append((block, "input_json_delta", "partial_json", json.dumps(arguments)))
    for index, (block, kind, member, content) in enumerate(blocks):
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": block}
        for piece in halves(content):
            delta = {"type": kind, member: piece}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    stop = "tool_use" if calls else "end_turn"
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20}}
    yield "message_stop", {"type": "message_stop"}


def responses(model, text, calls):
    items = []
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content})
    for name, arguments in calls:
        number = next(NUMBERS)
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
        )
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    whole = {"id": "resp_1", "object": "response", "model": model, "status": "completed", "output": items, "usage": usage}
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"type": "response.created", "response": begun}
    for index, item in enumerate(items):
        at = {"output_index": index}
        if item["type"] == "message":
            empty = item | {"status": "in_progress", "content": []}
            yield "response.output_item.added", at | {"type": "response.output_item.added", "item": empty}
            for piece in halves(text):
                delta = {"item_id": item["id"], "content_index": 0, "delta": piece}
                yield "response.output_text.delta", at | delta | {"type": "response.output_text.delta"}
        else:
            empty = item | {"status": "in_progress", "arguments": ""}
            yield "response.output_item.added", at | {"type": "response.output_item.added", "item": empty}
            kind = "response.function_call_arguments"
            for piece in halves(item["arguments"]):
                yield f"{kind}.delta", at | {"type": f"{kind}.delta", "item_id": item["id"], "delta": piece}
            done = {"type": f"{kind}.done", "item_id": item["id"], "arguments": item["arguments"]}
            yield f"{kind}.done", at | done
        yield "response.output_item.done", at | {"type": "response.output_item.done", "item": item}
    yield "response.completed", {"type": "response.completed", "response": whole}


def completions(model, text, calls):
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model}

    def chunk(delta, finish=None):
        return None, base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in halves(text) if text else []:
        yield chunk({"content": piece})
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": f"call_{next(NUMBERS)}", "type": "function", "function": function}
        yield chunk({"tool_calls": [call]})
        for piece in halves(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if calls else "stop")
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    yield None, base | {"choices": [], "usage": usage}


def gemini(model, text, calls):
    parts = [[{"text": piece}] for piece in halves(text)] if text else []
    parts.append([{"functionCall": {"name": name, "args": arguments}} for name, arguments in calls])
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
    for piece in parts[:-1]:
        yield None, {"candidates": [{"content": {"role": "model", "parts": piece}, "index": 0}], "modelVersion": model}
    last = {"content": {"role": "model", "parts": parts[-1]}, "finishReason": "STOP", "index": 0}
    yield None, {"candidates": [last], "usageMetadata": usage, "modelVersion": model}


PROTOCOLS = {
    "anthropic": ("/messages", anthropic, "/v1/"),
    "openai_responses": ("/responses", responses, "/v1/"),
    "openai": ("/chat/completions", completions, "/v1/"),
    "gemini": (":streamGenerateContent", gemini, "/v1beta/"),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.split("?")[0]
        found = [name for name, (ending, _, _) in PROTOCOLS.items() if path.endswith(ending)]
        streams = body.get("stream") or path.endswith(":streamGenerateContent")
        if not found or not streams:
            self.send_error(404)
            return
        [protocol] = found
        self.server.requests.append((protocol, body))
        answer = self.server.plan(asked(protocol, body))
        text, calls = (answer, []) if isinstance(answer, str) else ("", answer)
        events = PROTOCOLS[protocol][1](body.get("model", "gemini"), text, calls)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for name, event in events:
            named = f"event: {name}\n" if name else ""
            self.chunk(f"{named}data: {json.dumps(event)}\n\n".encode())
        if protocol == "openai":
            self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, data):
        # Truncated inside an event, so that no client takes a chunk for an event.
        for piece in (data[:7], data[7:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.flush()


class Models:
    def __init__(self, plan):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.plan, self.server.requests = plan, []
        self.thread = threading.Thread(target=self.server.serve_forever)

    @property
    def requests(self):
        return self.server.requests

    def base_url(self, protocol):
        return f"http://127.0.0.1:{self.server.server_port}{PROTOCOLS[protocol][2]}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
