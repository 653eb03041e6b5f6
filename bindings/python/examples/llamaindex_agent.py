# pyright: basic, reportMissingImports=false
"""An agent of LlamaIndex whose model, tools and runs are recorded and sealed, through OpenInference.

    python llamaindex_agent.py FOLDER

The model is a function, so that the example runs without a key. FOLDER gets keys and the record.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from scripted_model import ANSWER, QUESTION
from sealed_traces import sealed_traces


def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    """The model: calls the tool, then answers."""
    if any(message.role == "tool" for message in messages):
        return ChatMessage(role="assistant", content=ANSWER)
    called = ToolCallBlock(tool_call_id="call-1", tool_name="leads", tool_kwargs={"of": "Ada"})
    return ChatMessage(role="assistant", blocks=[called])


def leads(of: str) -> str:
    """Counts leads."""
    return f"three leads of {of}"


def main(folder: Path) -> None:
    """Runs the agent once, and prints the events of its record."""
    with sealed_traces(folder) as provider:
        LlamaIndexInstrumentor().instrument(tracer_provider=provider)
        model = MockFunctionCallingLLM(response_generator=answer)
        agent = FunctionAgent(tools=[leads], llm=model, name="scout", streaming=False)
        print(asyncio.run(ask(agent)))


async def ask(agent: FunctionAgent) -> str:
    """The answer of the agent."""
    return str(await agent.run(QUESTION))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
