"""A model on loopback that answers from a script, so that the examples run without a key and without a network.

It speaks the API of chat completions: it calls the tool that it is offered, and then answers.
"""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

QUESTION = "How many leads has Ada?"
ANSWER = "There are three leads."


class Answering(BaseHTTPRequestHandler):
    """Answers requests of one program."""

    protocol_version = "HTTP/1.1"
    final_tool: str | None = None
    """The tool that takes the answer, where a framework has one."""

    def do_POST(self) -> None:
        """The next answer of the conversation."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = [
            message for message in asked["messages"] if message["role"] == "tool" or "three leads of" in str(message)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if not results and asked.get("tools"):
            message["tool_calls"] = [call("leads", {"of": "Ada"})]
        elif self.final_tool is not None:
            message["tool_calls"] = [call(self.final_tool, {"answer": ANSWER})]
        else:
            message["content"] = ANSWER
        ended = "tool_calls" if "tool_calls" in message else "stop"
        answer = {
            "id": "answer",
            "object": "chat.completion",
            "created": 1,
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": ended}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


def call(name: str, arguments: dict[str, str]) -> dict[str, Any]:
    """The call of a tool."""
    return {"id": "call-1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


@contextmanager
def scripted_model(final_tool: str | None = None) -> Generator[str]:
    """The address of the model."""
    handler = type("Handler", (Answering,), {"final_tool": final_tool})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
