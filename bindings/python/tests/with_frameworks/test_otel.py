# pyright: standard
"""Spans of OpenTelemetry in records, from Pydantic AI and from a tracer of our own."""

import hashlib
import json
import multiprocessing
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import set_span_in_context
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
    assert "cannot record a span" in caplog.text
    assert json.loads(span.to_json())["name"] == "run"


class Unprintable:
    """A value whose class fails to show it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoName(type):
    """A class that fails to name itself."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Unnamed(Unprintable, metaclass=NoName):
    """A value of such a class."""


def within_itself() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> Any:
    found: Any = 1
    for _ in range(5000):
        found = [found]
    return found


ODD = {
    "nan": (float("nan"), "NaN"),
    "infinity": ([1.0, float("-inf")], [1.0, "-Infinity"]),
    "surrogate": ("a tool gave \ud83d", "a tool gave \\ud83d"),
    "bytes": (b"\xff\xff", {"base64": "//8="}),
    "unprintable": (Unprintable(), "[Unprintable: RuntimeError]"),
    "cycle": (within_itself(), ["[a value within itself]"]),
    "number": (10**5000, hex(10**5000)),
    "class": (Unnamed(), "[Unnamed: RuntimeError]"),
    "keys": ({1: "a", "1": "b", (2, 3): "c"}, {"1": "a", "1'": "b", "(2, 3)": "c"}),
}


# T-PY-57
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("odd", [*ODD, "long", "deep", "many", "names"])
def test_content_hides_no_span(tmp_path: Path, identity: Identity, odd: str, batch: bool) -> None:
    long = "x" * (17 << 20)
    digest = hashlib.sha256(long.encode()).hexdigest()
    more = {
        "long": long,
        "deep": deep(),
        "many": list(range(300_000)),
        "names": {"\1" * 999 + str(n): n for n in range(9999)},
    }
    value = more[odd] if odd in more else ODD[odd][0]
    exporter = SpanExporter(tmp_path / "t", identity=identity)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(exporter) if batch else SpanProcessor(tmp_path / "t", identity=identity)
    )
    tracer = provider.get_tracer("t")
    with tracer.start_as_current_span("run"):
        for name in ("before", "tool", "after"):
            with tracer.start_as_current_span(name) as span:
                # The SDK refuses some values; a framework may still set them.
                span._attributes._dict["result"] = value if name == "tool" else "fine"  # type: ignore[attr-defined]
    provider.shutdown()
    [path] = (tmp_path / "t").glob("*.jsonl")
    assert verify(path, trust=identity.trust).is_verified
    events = list(open_session(path, trust=identity.trust))
    assert events[-2].type == "thread_completed"
    spans = {event.payload["name"]: event.payload for event in events if event.type == "span_ended"}
    assert list(spans) == ["before", "tool", "after", "run"]
    result = spans["tool"]["attributes"]["result"]
    if odd == "long":
        assert result == {"shortened": "x" * 256, "bytes": 17 << 20, "sha256": digest}
    elif odd == "deep":
        assert "more than 64 values within each other" in json.dumps(result)
    elif odd == "many":
        assert result[:3] == [0, 1, 2] and result[-1]["left_out"] + len(result) - 1 == 300_000
    elif odd == "names":
        assert 100 < len(result) < 9999 and len(result) - 1 + result["left_out"] == 9999
    else:
        assert result == ODD[odd][1]


# T-PY-58
def test_a_span_that_no_record_takes_is_named_and_the_record_is_not_completed(
    tmp_path: Path, identity: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        """A span whose name cannot be read."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, member: str) -> Any:
            if member == "name":
                raise RuntimeError("no name")
            return getattr(self.inner, member)

    exporter = SpanExporter(tmp_path, identity=identity)
    tracer = TracerProvider().get_tracer("t")
    span: Any = tracer.start_span("run")
    span.end()
    assert exporter.export([span, Broken(span), span]).name == "FAILURE"  # type: ignore[list-item]
    exporter.shutdown()
    [path] = tmp_path.glob("*.jsonl")
    assert verify(path, trust=identity.trust).is_verified
    events = list(open_session(path, trust=identity.trust))
    assert [event.type for event in events if "span" in event.type or "left_out" in event.type] == [
        "span_ended",
        "event_left_out",
        "span_ended",
    ]
    assert (events[-2].type, events[-2].payload["left_out"]) == ("thread_error", 1)


# T-PY-60
def test_spans_are_recorded_again_when_a_disk_has_space_again(tmp_path: Path, identity: Identity) -> None:
    exporter = SpanExporter(tmp_path, identity=identity)
    tracer = TracerProvider().get_tracer("t")
    parent: Any = tracer.start_span("run")

    def sent(name: str) -> bool:
        span: Any = tracer.start_span(name, context=set_span_in_context(parent), attributes={"text": "x" * 2000})
        span.end()
        return exporter.export([span]).name == "SUCCESS"

    assert sent("before")
    [path] = tmp_path.glob("*.jsonl")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 1000, hard))
    try:
        assert not any([sent("full") for _ in range(3)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sent("after")
    exporter.shutdown()
    [path] = tmp_path.glob("*.jsonl")
    # Half of a line is left of the failed write.
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}}")]
    names = [line["payload"]["name"] for line in lines if line["event_type"] == "span_ended"]
    assert (names[0], names[-1]) == ("before", "after")
    [failed] = [line["payload"] for line in lines if line["event_type"] == "recording_failed"]
    assert failed["left_out"] >= 3 and "cannot write" in failed["error"]
    # What was written without a seal is marked, and the record does not end as if it had all.
    assert verify(path, trust=identity.trust).verdict in ("partial", "verified")
    assert (lines[-2]["event_type"], lines[-2]["payload"]["left_out"]) == ("thread_error", failed["left_out"])


def test_a_forked_process_has_records_of_its_own(tmp_path: Path, identity: Identity) -> None:
    exporter = SpanExporter(tmp_path, identity=identity)
    span: Any = TracerProvider().get_tracer("t").start_span("run")
    span.end()
    exporter.export([span])

    def work() -> None:
        exporter.export([span])
        exporter.shutdown()

    # The fork happens while a thread of the parent uses the exporter.
    with exporter._records._lock:
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
    child.join(30)
    assert child.exitcode == 0
    exporter.export([span])
    exporter.shutdown()
    assert len(list(tmp_path.glob("*.jsonl"))) == 2 and verify(tmp_path, trust=identity.trust).is_verified


# T-PY-61
def test_two_programs_begin_one_trace_at_once(tmp_path: Path, identity: Identity) -> None:
    exporters = [SpanExporter(tmp_path, identity=identity) for _ in range(4)]
    tracer = TracerProvider().get_tracer("t")
    barrier = threading.Barrier(len(exporters))
    spans: list[Any] = [tracer.start_span("run") for _ in range(25)]
    results: list[str] = []

    def work(exporter: SpanExporter) -> None:
        for span in spans:
            barrier.wait()
            results.append(exporter.export([span]).name)

    threads = [threading.Thread(target=work, args=(exporter,)) for exporter in exporters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for exporter in exporters:
        exporter.shutdown()
    assert results == ["SUCCESS"] * 100
    assert verify(tmp_path, trust=identity.trust).is_verified
    assert len(list(tmp_path.glob("*.jsonl"))) == 100
