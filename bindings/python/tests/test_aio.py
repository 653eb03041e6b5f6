"""The recorder for coroutines."""

import asyncio
from pathlib import Path

import pytest
from threadseal import AsyncRecorder, Identity, InvalidInput, NotVerified, open_session, verify


def steps(path: Path, identity: Identity) -> list[tuple[int, int]]:
    session = open_session(path, trust=identity.trust)
    return [(event.payload["task"], event.payload["step"]) for event in session if event.type == "note"]


def test_tasks_record_together_and_each_in_order(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"

    async def agent() -> None:
        async with AsyncRecorder(path, "agency/scout", identity=identity, durable=True) as record:

            async def work(task: int) -> None:
                for step in range(50):
                    await record.record("note", {"task": task, "step": step})

            await asyncio.gather(*(work(task) for task in range(20)))
            await record.seal()

    asyncio.run(agent())
    found = steps(path, identity)
    for task in range(20):
        assert [step for of, step in found if of == task] == list(range(50))


def test_a_payload_is_taken_when_it_is_given(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"

    async def agent() -> None:
        async with AsyncRecorder(path, "agency/scout", identity=identity) as record:
            payload = {"task": 1, "step": 1}
            recording = asyncio.ensure_future(record.record("note", payload))
            await asyncio.sleep(0)
            payload["step"] = 2
            await recording

    asyncio.run(agent())
    assert steps(path, identity) == [(1, 1)]


def test_one_bad_event_fails_alone(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"

    async def agent() -> None:
        async with AsyncRecorder(path, "agency/scout", identity=identity) as record:
            good = record.record("note", {"task": 1, "step": 1})
            reserved = record.record("checkpoint", {})
            answers = await asyncio.gather(good, reserved, return_exceptions=True)
            assert answers[0] is None and isinstance(answers[1], Exception)
            with pytest.raises(InvalidInput):
                await record.record("note", {"n": float("nan")})
            await record.record("note", {"task": 1, "step": 2})

    asyncio.run(agent())
    assert steps(path, identity) == [(1, 1), (1, 2)]


# T-PY-01
def test_a_changed_record_is_not_resumed_by_a_coroutine(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"

    async def begin() -> None:
        async with AsyncRecorder(path, "agency/scout", identity=identity, at_exit="open") as record:
            await record.record("note", {"task": 1, "step": 1})

    async def resume() -> None:
        async with AsyncRecorder(path, identity=identity, resume=True) as record:
            await record.record("note", {"task": 1, "step": 2})
            await record.end("completed", {"why": "done"})

    asyncio.run(begin())
    kept = path.read_text()
    path.write_text(kept.replace('"step":1', '"step":3'))
    with pytest.raises(NotVerified):
        asyncio.run(resume())
    path.write_text(kept)
    asyncio.run(resume())
    assert steps(path, identity) == [(1, 1), (1, 2)]


def test_a_task_that_is_cancelled_leaves_a_sealed_record(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"

    async def agent() -> None:
        async with AsyncRecorder(path, "agency/scout", identity=identity) as record:
            await record.record("note", {"task": 1, "step": 1})
            await asyncio.sleep(60)

    async def cancelled() -> None:
        task = asyncio.create_task(agent())
        while not path.exists() or "note" not in path.read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert verify(path, trust=identity.trust).is_verified
    assert "thread_cancelled" in path.read_text()


# T-PY-14
@pytest.mark.parametrize("attempt", range(4))
def test_the_last_event_is_recorded_when_all_tasks_are_cancelled(
    tmp_path: Path, identity: Identity, attempt: int
) -> None:
    path = tmp_path / "t.jsonl"

    async def agent() -> None:
        async with AsyncRecorder(path, "agency/scout", identity=identity, durable=True) as record:
            try:
                while True:
                    await asyncio.gather(*(record.record("note", {"task": 0, "step": step}) for step in range(50)))
            finally:
                await record.record("note", {"task": 1, "step": attempt})

    async def program() -> None:
        agents = asyncio.create_task(agent())
        await asyncio.sleep(0.1 + attempt / 100)
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        done, _ = await asyncio.wait([agents], timeout=20)
        assert done and agents.cancelled()

    asyncio.run(program())
    assert verify(path, trust=identity.trust).is_verified
    assert steps(path, identity)[-1] == (1, attempt)


def test_a_recorder_is_opened_by_its_block(tmp_path: Path, identity: Identity) -> None:
    record = AsyncRecorder(tmp_path / "t.jsonl", "agency/scout", identity=identity)
    assert not (tmp_path / "t.jsonl").exists()
    with pytest.raises(RuntimeError, match="hint: async with"):
        asyncio.run(record.record("note", {}))
    with pytest.raises(ValueError):
        AsyncRecorder(tmp_path / "t.jsonl", identity=identity)
