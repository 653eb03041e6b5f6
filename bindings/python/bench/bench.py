"""How fast a recorder takes events from Python: `python bench.py [FOLDER]`, with a release build.

Each figure is the best of several runs, beside its limit and its share of it; a share over 1 fails. Write a folder on a
disk to see what its fsync costs; without one, the events go to memory, so that only this library is measured.
"""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from threadseal import AsyncRecorder, Identity, Recorder, verify

EVENTS = 100_000
RUNS = 5
BATCH = 1000
THREADS = 4
PAYLOAD = {
    "role": "tool",
    "call_id": "call-17",
    "output": "total 24\ndrwxr-xr-x 2 ada ada 4096 .\n-rw-r--r-- 1 ada ada  512 notes.md\n" * 2,
    "duration_ms": 12.5,
    "ok": True,
}
MAX_EVENT_MICROSECONDS = 10.0
MIN_EVENTS_A_SECOND = 100_000


def one_at_a_time(record: Recorder) -> None:
    """A call for each event."""
    for _ in range(EVENTS):
        record.record("tool_call_result", PAYLOAD)


def in_batches(record: Recorder) -> None:
    """Group commit: a call for many events, durable together."""
    batch = [("tool_call_result", PAYLOAD)] * BATCH
    for _ in range(EVENTS // BATCH):
        record.record_many(batch)


def from_threads(record: Recorder) -> None:
    """Several threads, each durable: what they write at once shares an fsync."""

    def work() -> None:
        for _ in range(EVENTS // THREADS // 10):
            record.record("tool_call_result", PAYLOAD)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def best(folder: Path, identity: Identity, work: Callable[[Recorder], None], durable: bool) -> float:
    """The least time of several runs, in seconds."""
    times: list[float] = []
    for run in range(RUNS):
        path = folder / f"{work.__name__}-{durable}-{run}.jsonl"
        record = Recorder(path, "bench/events", identity=identity, durable=durable, seal_every=10_000)
        begin = time.perf_counter()
        work(record)
        times.append(time.perf_counter() - begin)
        record.end()
        verify(path, trust=identity.trust).require()
        path.unlink()
    return min(times)


async def from_tasks(path: Path, identity: Identity) -> float:
    """Many tasks, each of which awaits its event, durable."""
    tasks, each = 100, 200
    async with AsyncRecorder(path, "bench/events", identity=identity, durable=True) as record:

        async def work() -> None:
            for _ in range(each):
                await record.record("tool_call_result", PAYLOAD)

        begin = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(tasks)))
        return tasks * each / (time.perf_counter() - begin)


def main(folder: Path) -> int:
    """Prints the figures; the exit code."""
    identity = Identity.danger_with_seed(bytes(range(32)), folder / "keys")
    alone = best(folder, identity, one_at_a_time, durable=False) / EVENTS * 1e6
    rate = EVENTS / best(folder, identity, in_batches, durable=True)
    shared = EVENTS // 10 / best(folder, identity, from_threads, durable=True)
    tasks = asyncio.run(from_tasks(folder / "tasks.jsonl", identity))
    of_event, of_rate = alone / MAX_EVENT_MICROSECONDS, MIN_EVENTS_A_SECOND / rate
    print(f"one event, written        {alone:10.2f} µs   limit {MAX_EVENT_MICROSECONDS} µs   share {of_event:.2f}")
    print(f"group commit, durable     {rate:10.0f} /s   limit {MIN_EVENTS_A_SECOND} /s   share {of_rate:.2f}")
    print(f"{THREADS} threads, each durable   {shared:10.0f} /s")
    print(f"100 tasks, each durable   {tasks:10.0f} /s")
    return int(max(of_event, of_rate) > 1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        sys.exit(main(Path(scratch)))
