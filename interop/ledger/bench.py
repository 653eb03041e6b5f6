"""Measures AbstractRuntime's ledger: prints wall seconds, CPU seconds, peak bytes, records and 0.

    bench.py append jsonl|sqlite FOLDER COUNT     HashChainedLedgerStore.append, one record at a time
    bench.py verify FOLDER RUN                    list() of the JSONL store and verify_ledger_chain

Only these calls are timed, without the start of Python and without making the records.
"""

import resource
import sys
import time
from pathlib import Path

from abstractruntime.core.models import StepRecord, StepStatus
from abstractruntime.storage.json_files import JsonlLedgerStore
from abstractruntime.storage.ledger_chain import HashChainedLedgerStore, verify_ledger_chain
from abstractruntime.storage.sqlite import SqliteDatabase, SqliteLedgerStore

WORDS = "the agent reads a file, thinks and answers in a few words; "


def record(number):
    """The same record as `StepRecord` in xtask/src/bench/ledger_job.rs."""
    step, ended = divmod(number, 2)
    moment = f"2026-01-01T00:00:00.{number % 1_000_000:06}+00:00"
    return StepRecord(
        run_id="bench",
        step_id=f"step-{step:012}",
        node_id="node-1",
        status=StepStatus.COMPLETED if ended else StepStatus.STARTED,
        effect={
            "type": "llm_call",
            "payload": {"prompt": WORDS * 6, "temperature": 0.7, "max_tokens": 2048},
            "result_key": "answer",
        },
        result={"content": WORDS * 6, "usage": {"total_tokens": 5628}} if ended else None,
        started_at=moment,
        ended_at=moment if ended else None,
        actor_id="ar_0123456789abcdef01234567",
        session_id="sess-1",
        attempt=1,
        idempotency_key=f"{step:032x}",
    )


def append(kind, folder, count):
    folder = Path(folder)
    folder.mkdir(parents=True)
    if kind == "sqlite":
        inner = SqliteLedgerStore(SqliteDatabase(folder / "ledger.sqlite"))
    else:
        inner = JsonlLedgerStore(folder)
    ledger = HashChainedLedgerStore(inner)
    records = [record(number) for number in range(count)]
    started = clocks()
    for one in records:
        ledger.append(one)
    return started, count


def verify(folder, run):
    started = clocks()
    records = JsonlLedgerStore(folder).list(run)
    report = verify_ledger_chain(records)
    if not report["ok"]:
        raise SystemExit(f"the chain does not hold: {report['errors'][:3]}")
    return started, len(records)


def clocks():
    return time.perf_counter(), time.process_time()


def main():
    match sys.argv[1:]:
        case ["append", kind, folder, count]:
            started, records = append(kind, folder, int(count))
        case ["verify", folder, run]:
            started, records = verify(folder, run)
        case _:
            raise SystemExit(__doc__)
    wall, cpu = (now - then for now, then in zip(clocks(), started))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{wall} {cpu} {peak} {records} 0")


main()
