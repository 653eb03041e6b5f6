"""What `SealingProcessor` adds to a run of the OpenAI Agents SDK: `python beside_openai_agents.py [FOLDER]`.

It takes a release build. The model is scripted and takes 50 ms an answer. Runs whose traces go nowhere and runs with
sealed traces alternate; the median of the ratios counts. The last line is the time of one span in the processor alone.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.items import ModelResponse
from agents.models.interface import Model, ModelProvider
from agents.tracing import TracingProcessor, custom_span, set_trace_processors, trace
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from threadseal import Identity, verify
from threadseal.openai_agents import SealingProcessor

ROUNDS = 15
ANSWERS = 10
ANSWER_SECONDS = 0.05
SPANS = 2000
MAX_RATIO = 1.05


class Scripted(Model, ModelProvider):
    """Calls a tool nine times, then answers."""

    def __init__(self) -> None:
        self.asked = 0

    def get_model(self, model_name: str | None) -> Model:
        """Itself."""
        return self

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """The next answer, after the time that a model takes."""
        await asyncio.sleep(ANSWER_SECONDS)
        self.asked += 1
        name = f"c{self.asked}"
        if self.asked < ANSWERS:
            answer: Any = ResponseFunctionToolCall(
                arguments='{"of": "Ada"}', call_id=name, name="leads", type="function_call"
            )
        else:
            text = ResponseOutputText(text="There are three leads.", type="output_text", annotations=[])
            answer = ResponseOutputMessage(
                id=name, content=[text], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[answer], usage=Usage(), response_id=name)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Not used."""
        raise NotImplementedError


@function_tool
def leads(of: str) -> str:
    """Counts leads."""
    return f"three leads of {of}"


def seconds(processors: list[TracingProcessor]) -> float:
    """The time of one run."""
    set_trace_processors(processors)
    agent = Agent(name="scout", instructions="Find.", tools=[leads])
    begin = time.perf_counter()
    done = asyncio.run(
        Runner.run(agent, "Find.", run_config=RunConfig(model_provider=Scripted()), max_turns=ANSWERS + 1)
    )
    taken = time.perf_counter() - begin
    assert done.final_output == "There are three leads."
    return taken


def microseconds_a_span(processors: list[TracingProcessor]) -> float:
    """The time of a span without work in it."""
    set_trace_processors(processors)
    begin = time.perf_counter()
    with trace("spans"):
        for number in range(SPANS):
            with custom_span("step", {"number": number}):
                pass
    return (time.perf_counter() - begin) / SPANS * 1e6


def main(folder: Path) -> int:
    """Prints the figures; the exit code."""
    identity = Identity.danger_with_seed(bytes(range(32)), folder / "keys")
    processor = SealingProcessor(folder / "traces", identity=identity)
    pairs = [(seconds([]), seconds([processor])) for _ in range(ROUNDS)]
    assert len(list((folder / "traces").glob("*.jsonl"))) == ROUNDS
    processor.force_flush()
    verify(folder / "traces", trust=identity.trust).require()
    ratio = statistics.median(sealed / alone for alone, sealed in pairs)
    alone, sealed = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
    ending = f"ratio {ratio:.3f}   limit {MAX_RATIO}"
    print(f"a run of {ANSWERS} answers {alone:8.1f} ms alone {sealed:8.1f} ms sealed   {ending}")
    spans = [(microseconds_a_span([]), microseconds_a_span([processor])) for _ in range(5)]
    alone, sealed = (min(times) for times in zip(*spans, strict=True))
    print(f"a span             {alone:8.1f} µs alone {sealed:8.1f} µs sealed")
    return int(ratio > MAX_RATIO)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(main(Path(scratch)))
