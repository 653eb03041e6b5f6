# pyright: standard
"""Spans of OpenTelemetry in records, from Pydantic AI and from a tracer of our own."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from threadseal import Identity, open_session, verify
from threadseal.otel import SpanExporter, SpanProcessor

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/pydantic_ai_agent.py"


def test_the_example_of_pydantic_ai_records_model_tool_and_agent(tmp_path: Path, identity: Identity) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "There are three leads."
    kinds = [line.split(" ")[1] for line in lines[1:]]
    assert (kinds.count("cognition_out"), kinds.count("tool_call_result"), kinds.count("agent_ended")) == (2, 1, 1)
    [path] = (tmp_path / "traces").glob("*.jsonl")
    assert verify(path, trust=identity.trust).is_verified
    assert "three leads of Ada" in path.read_text()


# T-PY-55
def test_a_changed_span_is_noticed(tmp_path: Path, identity: Identity) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor(tmp_path, identity=identity))
    with provider.get_tracer("t").start_as_current_span("tool", attributes={"amount": "3 euros"}):
        pass
    [path] = tmp_path.glob("*.jsonl")
    assert verify(path, trust=identity.trust).verdict == "open"
    path.write_text(path.read_text().replace("3 euros", "9 euros"))
    assert verify(path, trust=identity.trust).verdict == "tampered"


def test_traces_have_records_of_their_own_and_batches_share_a_seal(tmp_path: Path, identity: Identity) -> None:
    exporter = SpanExporter(tmp_path, identity=identity)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("t")

    def work(number: int) -> None:
        with tracer.start_as_current_span("run", attributes={"gen_ai.operation.name": "invoke_agent", "n": number}):
            for step in range(20):
                with tracer.start_as_current_span("step", attributes={"step": step}):
                    pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    provider.shutdown()
    paths = sorted(tmp_path.glob("*.jsonl"))
    assert len(paths) == 6
    for path in paths:
        report = verify(path, trust=identity.trust).require()
        events = list(open_session(path, trust=identity.trust))
        steps = [event.payload["attributes"]["step"] for event in events if event.type == "span_ended"]
        assert steps == list(range(20))
        [run] = [event for event in events if event.type == "agent_ended"]
        assert f"0x{path.stem}" == run.payload["context"]["trace_id"]
        assert report.results[0].stats.checkpoints < 10


def test_a_late_span_begins_a_record_of_its_own(tmp_path: Path, identity: Identity) -> None:
    exporter = SpanExporter(tmp_path, identity=identity, max_open=1)
    provider = TracerProvider()
    tracer = provider.get_tracer("t")
    spans: list[Any] = []
    for _ in range(2):
        span = tracer.start_span("run")
        span.end()
        spans.append(span)
    for span in (spans[0], spans[1], spans[0]):
        exporter.export([span])
    exporter.shutdown()
    assert len(list(tmp_path.glob("*.jsonl"))) == 3
    assert verify(tmp_path, trust=identity.trust).is_verified


def test_a_fault_of_recording_is_a_failed_export(
    tmp_path: Path, identity: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = SpanExporter(tmp_path / "traces", identity=identity)
    (tmp_path / "traces").rmdir()
    span: Any = TracerProvider().get_tracer("t").start_span("run")
    span.end()
    assert exporter.export([span]).name == "FAILURE"
    assert "cannot record spans" in caplog.text
    assert json.loads(span.to_json())["name"] == "run"
