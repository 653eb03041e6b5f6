"""A model on loopback that lets agents run without a network.

It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini generateContent, as a stream or whole.
Where a client offers a shell and its last message is a user's, the answer calls the shell once. Else it is a text.
So each turn of an agent has one call of a tool.
"""
import gzip
import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMAND = "echo line >> made-by-agent.txt; wc -l < made-by-agent.txt"
TEXT = "The file has one more line."
# How each agent calls its shell.
SHELLS = ("Bash", "bash", "shell", "shell_command", "exec_command", "run_shell_command")
NUMBERS = itertools.count(1)


def serve():
    """Starts the model; returns its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def arguments_of(shell):
    if shell == "exec_command":
        return {"cmd": COMMAND}
    if shell == "shell":
        return {"command": ["sh", "-c", COMMAND]}
    return {"command": COMMAND, "description": "Add a line"}


def pick(names):
    return next((name for name in names if name in SHELLS), None)


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
        last = request["messages"][-1]["content"]
        answered = isinstance(last, list) and any(part.get("type") == "tool_result" for part in last)
        shell = None if answered else pick(tool.get("name") for tool in request.get("tools", []))
        if shell:
            block = {"type": "tool_use", "id": f"toolu_{next(NUMBERS):020}", "name": shell, "input": arguments_of(shell)}
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            block = {"type": "text", "text": TEXT}
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": TEXT}
        stop = "tool_use" if shell else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": f"msg_{next(NUMBERS):020}", "type": "message", "role": "assistant", "model": request.get("model")}
        if not request.get("stream"):
            self.send({**message, "content": [block], "stop_reason": stop, "stop_sequence": None, "usage": usage})
            return
        begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        end = {"stop_reason": stop, "stop_sequence": None}
        self.stream(
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        )

    # OpenAI Responses
    def answer_responses(self, request):
        last = request["input"][-1] if isinstance(request.get("input"), list) else {}
        answered = last.get("type", "").endswith("_output")
        shell = None if answered else pick(tool.get("name") or tool.get("type") for tool in request.get("tools", []))
        number = next(NUMBERS)
        if shell:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": shell,
                    "arguments": json.dumps(arguments_of(shell)), "status": "completed"}
        else:
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": TEXT, "annotations": []}]}
        usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}
        whole = {"id": f"resp_{number}", "object": "response", "created_at": 0, "status": "completed",
                 "model": request.get("model"), "output": [item], "usage": usage}
        if not request.get("stream"):
            self.send(whole)
            return
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        self.stream(
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        )

    # OpenAI Chat Completions
    def answer_completions(self, request):
        answered = request["messages"][-1]["role"] == "tool"
        shell = None if answered else pick(tool["function"]["name"] for tool in request.get("tools", []))
        number = next(NUMBERS)
        if shell:
            call = {"index": 0, "id": f"call_{number}", "type": "function",
                    "function": {"name": shell, "arguments": json.dumps(arguments_of(shell))}}
            message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        else:
            message, finish = {"role": "assistant", "content": TEXT}, "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": f"chatcmpl-{number}", "created": 0, "model": request.get("model")}
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
        parts = request["contents"][-1].get("parts", [])
        config = request.get("generationConfig") or {}
        answered = any("functionResponse" in part for part in parts)
        tools = [tool["name"] for group in request.get("tools", []) for tool in group.get("functionDeclarations", [])]
        shell = None if answered else pick(tools)
        if config.get("responseMimeType") == "application/json":
            parts = [{"text": json.dumps({"reasoning": "none", "next_speaker": "user", "model_choice": "flash",
                                          "complexity_reasoning": "none", "complexity_score": 1})}]
        elif shell:
            parts = [{"functionCall": {"name": shell, "args": arguments_of(shell)}}]
        else:
            parts = [{"text": TEXT}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "none"}
        if is_stream:
            self.stream(answer)
        else:
            self.send(answer)

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
