"""An agent of Pydantic AI whose model, tools and runs are recorded and sealed.

    python pydantic_ai_agent.py FOLDER

The model is a function, so that the example runs without a key. FOLDER gets keys and the record.
"""

import sys
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from threadseal import Identity, open_session
from threadseal.otel import SpanProcessor


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """The model: calls the tool, then answers."""
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("leads", {"of": "Ada"})])
    return ModelResponse(parts=[TextPart("There are three leads.")])


def main(folder: Path) -> None:
    """Runs the agent once, and prints the events of its record."""
    me = Identity.danger_with_seed(bytes(range(32)), folder)  # a program has a home
    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor(folder / "traces", identity=me))
    settings = InstrumentationSettings(tracer_provider=provider)
    agent = Agent(FunctionModel(answer), name="scout")
    agent.instrument = settings

    @agent.tool_plain
    def leads(of: str) -> str:
        """Counts leads."""
        return f"three leads of {of}"

    print(agent.run_sync("Find the leads.").output)
    provider.shutdown()
    [path] = (folder / "traces").glob("*.jsonl")
    for event in open_session(path, trust=me.trust):
        print(event.line, event.type)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
