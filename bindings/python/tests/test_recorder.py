"""Records: written, sealed, changed, resumed, from threads and processes."""

import gc
import json
import multiprocessing
import os
import pickle
import random
import resource
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support import Command, change
from threadseal import (
    Identity,
    InvalidInput,
    KeyRefused,
    NotVerified,
    Recorder,
    Refused,
    StorageFailed,
    Superseded,
    ThreadSealError,
    Trust,
    open_session,
    verify,
)


def begun(path: Path, identity: Identity) -> str:
    """A record with two events under a seal, given up without an end."""
    with Recorder(path, "agency/scout", identity=identity, at_exit="open") as record:
        record.record("cognition_in", {"role": "user", "text": "Find the leads."})
        record.record("cognition_out", {"text": "Three."})
        head = record.seal()
    return head


def payloads(path: Path, identity: Identity, kind: str) -> list[Any]:
    """The payloads of all verified events of a type."""
    session = open_session(path, need="sealed", trust=identity.trust)
    return [event.payload for event in session if event.type == kind]


def test_a_record_is_verified_and_ended(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    with Recorder(path, "agency/scout", identity=identity, model="m-1", directive="agency/scout") as record:
        record.record("cognition_in", {"role": "user", "text": "Find the leads."})
        first = record.seal()
        assert first == record.head
        assert (record.thread, record.path, record.closed) == ("agency/scout", path, False)
        record.record("cognition_out", {"text": "Three."})
    assert record.closed
    report = verify(path, trust=identity.trust).require()
    [result] = report.results
    assert (result.verdict, result.completeness, result.record) == ("verified", "final", record.record_id)
    assert result.trusted_until is not None and result.trusted_until.turn == 2
    assert "thread_completed" in path.read_text()
    started = json.loads(path.read_text().splitlines()[0])["payload"]
    assert (started["model"], started["directive"]) == ("m-1", "agency/scout")


# T-PY-01
def test_a_changed_record_is_refused_everywhere(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    begun(path, identity)
    before = path.read_text()
    change(path, "Three", "Four.")
    assert verify(path, trust=identity.trust).verdict == "tampered"
    with pytest.raises(NotVerified) as refused:
        Recorder.resume(path, identity=identity)
    assert refused.value.report is not None
    assert refused.value.report.verdict == "tampered"
    assert "hint: threadseal verify" in str(refused.value)
    with pytest.raises(NotVerified) as closed:
        open_session(path, need="sealed", trust=identity.trust)
    assert closed.value.report is not None and closed.value.report.verdict == "tampered"
    assert path.read_text() == before.replace("Three", "Four.")


# T-PY-02
def test_an_older_copy_of_a_record_is_not_resumed(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    begun(path, identity)
    older = path.read_bytes()
    with Recorder.resume(path, identity=identity, at_exit="open") as record:
        record.record("cognition_in", {"text": "More."})
    path.write_bytes(older)
    with pytest.raises(NotVerified) as refused:
        Recorder.resume(path, identity=identity)
    assert refused.value.report is not None and refused.value.report.verdict == "rolled_back"


def test_a_record_is_resumed_and_continued(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    begun(path, identity)
    assert verify(path, trust=identity.trust).verdict == "open"
    with Recorder.resume(path, identity=identity) as record:
        record.record("cognition_in", {"text": "And now?"})
        assert record.set_aside is None
    assert verify(path, trust=identity.trust).is_verified
    with pytest.raises(Refused, match="hint: begin a new one"):
        Recorder.resume(path, identity=identity)


# T-PY-03
@pytest.mark.parametrize("tail", ["refuse", "set_aside", "adopt"])
def test_lines_without_a_seal_are_never_taken_for_sealed(tmp_path: Path, identity: Identity, tail: Any) -> None:
    path = tmp_path / "t.jsonl"
    begun(path, identity)
    record = Recorder.resume(path, identity=identity)
    record.record("note", {"text": "before the crash"})
    record._inner.abandon()
    if tail == "refuse":
        with pytest.raises(NotVerified) as refused:
            Recorder.resume(path, identity=identity)
        assert refused.value.report is not None and refused.value.report.verdict == "unsigned_tail"
        return
    with Recorder.resume(path, identity=identity, tail=tail) as record:
        assert (record.set_aside is None) == (tail == "adopt")
        if record.set_aside:
            assert "before the crash" in record.set_aside.read_text()
    notes = [event for event in open_session(path, need="vouched", trust=identity.trust) if event.type == "note"]
    assert notes == []
    assert ("before the crash" in path.read_text()) == (tail == "adopt")


# T-PY-04
def test_a_record_has_one_writer(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    begun(path, identity)
    with Recorder.resume(path, identity=identity) as record:
        with pytest.raises(ThreadSealError, match="writer"):
            Recorder.resume(path, identity=identity)
        record.record("note", {"text": "still mine"})
    with pytest.raises(InvalidInput):
        Recorder(path, "agency/scout", identity=identity)
    assert payloads(path, identity, "note") == [{"text": "still mine"}]


def in_child(record: Recorder, answers: "multiprocessing.Queue[str]") -> None:
    try:
        record.record("note", {"text": "from the child"})
        answers.put("recorded")
    except Superseded as error:
        answers.put(str(error))


# T-PY-05
def test_a_forked_process_writes_nothing(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    fork = multiprocessing.get_context("fork")
    with Recorder(path, "agency/scout", identity=identity) as record:
        answers: multiprocessing.Queue[str] = fork.Queue()
        child = fork.Process(target=in_child, args=(record, answers))
        child.start()
        assert f"process {os.getpid()}" in answers.get(timeout=30)
        child.join(30)
        record.record("note", {"text": "from the parent"})
    assert verify(path, trust=identity.trust).is_verified
    assert payloads(path, identity, "note") == [{"text": "from the parent"}]


# T-PY-13
def test_a_process_that_is_forked_while_threads_record_ends(tmp_path: Path, identity: Identity) -> None:
    record = Recorder(tmp_path / "t.jsonl", "agency/scout", identity=identity, durable=True)
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            record.record("note", {})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=leave_block, args=(record,)) for _ in range(20)]
    try:
        for child in children:
            child.start()
        for child in children:
            child.join(30)
        codes = [child.exitcode for child in children]
    finally:
        is_over.set()
        for child in children:
            child.kill()
        for thread in threads:
            thread.join()
    record.end()
    assert codes == [0] * 20
    assert verify(record.path, trust=identity.trust).is_verified


def leave_block(record: Recorder) -> None:
    with record:
        assert record.closed and record.head is None
        record.close()
        record._inner.abandon()


@pytest.mark.parametrize("lines", [0, (1 << 20) + 1])
def test_a_bound_that_is_refused_leaves_no_file(tmp_path: Path, identity: Identity, lines: int) -> None:
    path = tmp_path / "t.jsonl"
    with pytest.raises(InvalidInput, match="seal_every"):
        Recorder(path, "agency/scout", identity=identity, seal_every=lines)
    assert not path.exists()
    Recorder(path, "agency/scout", identity=identity).end()


@pytest.mark.parametrize("durable", [False, True])
def test_threads_record_together_and_each_in_order(tmp_path: Path, identity: Identity, durable: bool) -> None:
    path = tmp_path / "t.jsonl"
    threads, each = 8, 200
    with Recorder(path, "agency/scout", identity=identity, durable=durable, seal_every=100) as record:

        def work(number: int) -> None:
            for step in range(each):
                record.record("note", {"thread": number, "step": step})

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    report = verify(path, trust=identity.trust).require()
    notes = payloads(path, identity, "note")
    for number in range(threads):
        assert [note["step"] for note in notes if note["thread"] == number] == list(range(each))
    # seal_every, and the first and last seal.
    assert report.results[0].stats.checkpoints >= threads * each // 100


def test_the_interpreter_goes_its_way_while_a_record_is_verified(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    with Recorder(path, "agency/scout", identity=identity) as record:
        record.record_many(("note", {"text": "x" * 400, "n": n}) for n in range(20_000))
    beats, stop = 0, threading.Event()

    def beat() -> None:
        nonlocal beats
        while not stop.is_set():
            beats += 1
            time.sleep(0.001)

    heart = threading.Thread(target=beat)
    heart.start()
    begin, beats = time.monotonic(), 0
    verify(path, trust=identity.trust).require()
    seen, took = beats, time.monotonic() - begin
    stop.set()
    heart.join()
    # One that holds the lock would let no other thread run.
    assert took < 0.02 or seen >= took / 0.001 / 20


def deep(depth: int) -> list[Any]:
    """So many lists within each other."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


NO_JSON: list[Any] = [
    {"n": 10**5000},
    {"n": float("nan")},
    {"n": float("inf")},
    {"bytes": b"x"},
    {1: "number as key"},
    {"half": "\ud800"},
    {"set": {1}},
    {"deep": deep(200)},
    ["no dict"],
    None,
]


# T-PY-06
@pytest.mark.parametrize("payload", NO_JSON)
def test_what_is_no_json_is_refused_and_leaves_no_trace(tmp_path: Path, identity: Identity, payload: Any) -> None:
    path = tmp_path / "t.jsonl"
    with Recorder(path, "agency/scout", identity=identity) as record:
        with pytest.raises(InvalidInput):
            record.record("note", payload)
        with pytest.raises(InvalidInput):
            record.record_many([("note", {"n": 1}), ("note", payload)])
    assert verify(path, trust=identity.trust).is_verified
    assert payloads(path, identity, "note") == []


# T-PY-07
@pytest.mark.parametrize("event_type", ["checkpoint", "thread_completed", "redacted", "key"])
def test_events_of_the_recorder_are_refused_to_callers(tmp_path: Path, identity: Identity, event_type: str) -> None:
    with Recorder(tmp_path / "t.jsonl", "agency/scout", identity=identity) as record:
        with pytest.raises(ThreadSealError):
            record.record(event_type, {})
        record.record("note", {"text": "it still records"})
    assert verify(tmp_path / "t.jsonl", trust=identity.trust).is_verified


def value(source: random.Random, depth: int = 0) -> Any:
    """Any JSON value."""
    kind = source.randrange(8 if depth < 4 else 6)
    if kind == 0:
        return source.choice([None, True, False])
    if kind == 1:
        return source.randint(-(2**53), 2**53)
    if kind == 2:
        return source.uniform(-1e6, 1e6)
    if kind == 3:
        return source.choice([0, -1, 1.5, 1e300, 5e-324, 0.1])
    if kind in (4, 5):
        alphabet = 'aé"\\\n\t\x00\x1f\x7f€😀\u2028/'
        return "".join(source.choice(alphabet) for _ in range(source.randrange(12)))
    items = range(source.randrange(4))
    if kind == 6:
        return [value(source, depth + 1) for _ in items]
    return {f"k{n}\u00e9": value(source, depth + 1) for n in items}


def test_a_payload_comes_back_as_it_was_given(tmp_path: Path, identity: Identity) -> None:
    path, source = tmp_path / "t.jsonl", random.Random(7)
    given = [{"value": value(source)} for _ in range(500)]
    with Recorder(path, "agency/scout", identity=identity) as record:
        for payload in given:
            record.record("note", payload)
    assert payloads(path, identity, "note") == given


def test_an_exception_ends_the_record_as_an_error(tmp_path: Path, identity: Identity) -> None:
    for name, error in (("error", ValueError), ("cancelled", KeyboardInterrupt)):
        path = tmp_path / f"{name}.jsonl"
        with pytest.raises(error):
            with Recorder(path, "agency/scout", identity=identity):
                raise error("a secret of the caller")
        text = path.read_text()
        assert f"thread_{name}" in text and error.__name__ in text
        assert "a secret of the caller" not in text
        assert verify(path, trust=identity.trust).is_verified


def test_a_closed_record_takes_no_event(tmp_path: Path, identity: Identity) -> None:
    record = Recorder(tmp_path / "t.jsonl", "agency/scout", identity=identity)
    record.end("suspended", {"why": "lunch"})
    for call in (lambda: record.record("note", {}), record.seal, record.end, record.sync):
        with pytest.raises(Refused, match="hint: resume it"):
            call()
    record.close()


def test_a_recorder_that_is_dropped_gives_its_record_up(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    record = Recorder(path, "agency/scout", identity=identity)
    record.record("note", {"text": "without a seal"})
    del record
    gc.collect()
    with Recorder.resume(path, identity=identity, tail="set_aside") as resumed:
        assert resumed.set_aside is not None


# T-PY-12
def test_after_a_failed_write_nothing_is_promised(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    record = Recorder(path, "agency/scout", identity=identity, at_exit="open")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, hard))
    promised = 0
    try:
        with pytest.raises(StorageFailed, match="cannot"):
            for promised in range(1000):
                record.record("note", {"n": promised, "text": "x" * 500})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(StorageFailed, match="open the record again"):
        record.seal()
    record._inner.abandon()
    with Recorder.resume(path, identity=identity, tail="adopt") as resumed:
        resumed.record("note", {"n": "after"})
    numbers = [event["n"] for event in written(path)]
    assert numbers[:promised] == list(range(promised)) and numbers[-1] == "after"


def written(path: Path) -> list[Any]:
    """The payloads of all whole lines with a note, whether they are under a seal or not."""
    found: list[Any] = []
    for line in path.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event["event_type"] == "note":
            found.append(event["payload"])
    return found


# T-PY-08
def test_keys_of_another_person_do_not_continue_a_record(tmp_path: Path, identity: Identity, other: Identity) -> None:
    path = tmp_path / "t.jsonl"
    begun(path, identity)
    before = path.read_bytes()
    with pytest.raises(NotVerified) as refused:
        Recorder.resume(path, identity=other)
    assert refused.value.report is not None and refused.value.report.verdict == "unknown_signer"
    assert verify(path, trust=other.trust).verdict == "unknown_signer"
    assert path.read_bytes() == before


def test_records_of_a_home_are_in_its_log_and_verify_with_the_command(
    tmp_path: Path, home: Path, command: Command
) -> None:
    path = tmp_path / "t.jsonl"
    with Recorder(path, "agency/scout", at_exit="open") as record:
        record.record("cognition_in", {"text": "Find the leads."})
        record.seal()
    report = verify(path)
    assert report.verdict == "open" or report.verdict == "verified"
    with Recorder.resume(path) as record:
        record.record("cognition_out", {"text": "Three."})
    done = command("verify", "--json", path)
    assert json.loads(done.stdout) == verify(path).as_dict
    [result] = verify(path).results
    [log] = [check for check in result.checks if check.name == "log"]
    assert log.result == "pass"
    # A record that the command began is continued here.
    command("record", "-q", "--thread", "demo/shell", tmp_path / "c.jsonl", "--on-eof", "suspend", check=False)
    assert verify(tmp_path / "c.jsonl").is_verified


# T-PY-09
def test_a_home_notices_the_older_copy_of_a_record_that_python_sealed(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "t.jsonl"
    with Recorder(path, "agency/scout", at_exit="open") as record:
        record.record("cognition_in", {"text": "Find the leads."})
        record.seal()
        older = path.read_bytes()
        record.record("cognition_out", {"text": "Three."})
    path.write_bytes(older)
    assert verify(path).verdict == "rolled_back"
    with pytest.raises(NotVerified):
        Recorder.resume(path)


def test_without_a_home_the_error_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(KeyRefused, match="hint: threadseal init"):
        Recorder(tmp_path / "t.jsonl", "agency/scout")
    with pytest.raises(Refused, match="not a key"):
        Trust.of_home(keys=["no-such-name"])


def test_a_refusal_can_be_sent_to_another_process(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    begun(path, identity)
    change(path, "Three", "Four.")
    with pytest.raises(NotVerified) as refused:
        Recorder.resume(path, identity=identity)
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (str(copy), copy.report) == (str(refused.value), refused.value.report)
