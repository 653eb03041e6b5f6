"""Asks the real abstractruntime. One JSON request a line on stdin, one JSON answer a line on stdout.

A *place* is a folder (ledgers as `ledger_<run>.jsonl`) or a file that ends in `.db` (SQLite).

    {"op": "run", "place": P, "seed": N}
        a workflow with waits, retries, a failure or a child, as N says; the ids of its runs
    {"op": "append", "place": P, "run": R, "count": N, "seed": N}
        null; N more steps (two records each) through HashChainedLedgerStore
    {"op": "verify", "place": P, "run": R}
        the report of verify_ledger_chain, or {"exception": NAME}
    {"op": "bundle", "place": P, "run": R, "mode": "full" | "tail", "detail": "full" | "replay", "max": N}
        a history bundle
    {"op": "verify_bundle", "path": P}           {run: report} for each ledger of a bundle
    {"op": "hash", "record": TEXT, "prev": HASH or null}   compute_record_hash, or {"exception": NAME}
    {"op": "actor", "kind": K, "display_name": N or null, "metadata": M}     the actor's id
"""

import json
import logging
import random
import sys
from pathlib import Path

logging.disable(logging.CRITICAL)

from abstractruntime import Effect, EffectType, Runtime, StepPlan, WorkflowSpec  # noqa: E402
from abstractruntime.core.models import RunState, StepRecord, WaitReason, WaitState  # noqa: E402
from abstractruntime.core.policy import RetryPolicy  # noqa: E402
from abstractruntime.core.runtime import EffectOutcome  # noqa: E402
from abstractruntime.history_bundle import export_run_history_bundle  # noqa: E402
from abstractruntime.identity.fingerprint import ActorFingerprint  # noqa: E402
from abstractruntime.storage.json_files import JsonFileRunStore, JsonlLedgerStore  # noqa: E402
from abstractruntime.storage.ledger_chain import (  # noqa: E402
    HashChainedLedgerStore,
    compute_record_hash,
    verify_ledger_chain,
)
from abstractruntime.storage.sqlite import SqliteDatabase, SqliteLedgerStore, SqliteRunStore  # noqa: E402

WORDS = ["plan", "é", "日本", "𐐷", "\u2028", "tab\there", 'quote"', "\x7f", "\\", "🙂", "line\nbreak"]


def stores(place):
    """The run store and the plain ledger store of a place."""
    if place.endswith(".db"):
        database = SqliteDatabase(place)
        return SqliteRunStore(database), SqliteLedgerStore(database)
    Path(place).mkdir(parents=True, exist_ok=True)
    return JsonFileRunStore(place), JsonlLedgerStore(place)


def value(rng, depth=0):
    """Any value that a handler may return."""
    kinds = ["text", "int", "float", "big", "flag", "null"] + (["list", "dict"] if depth < 3 else [])
    match rng.choice(kinds):
        case "text":
            return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(6)))
        case "int":
            return rng.randrange(-(10**6), 10**6)
        case "float":
            return rng.choice([0.1, 1.0, -0.0, 1e16, 1e-5, 5e-324, rng.random() * 10 ** rng.randrange(-30, 30)])
        case "big":
            return rng.randrange(10**30)
        case "flag":
            return rng.random() < 0.5
        case "null":
            return None
        case "list":
            return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
        case _:
            return {rng.choice(WORDS) + str(i): value(rng, depth + 1) for i in range(rng.randrange(4))}


def run(request):
    rng = random.Random(request["seed"])
    run_store, ledger = stores(request["place"])
    kind = ["plain", "ask", "retry", "fail", "cancel", "large"][request["seed"] % 6]
    attempts = iter([True, True, False])

    def call(_run, effect, _next):
        if kind == "fail" or (kind == "retry" and next(attempts, False)):
            return EffectOutcome.failed("the model did not answer")
        return EffectOutcome.completed({"content": value(rng), "usage": {"total": rng.randrange(9999)}})

    def ask(_run, effect, following):
        return EffectOutcome.waiting(
            WaitState(reason=WaitReason.USER, wait_key="answer", prompt="go on?", resume_to_node=following)
        )

    prompt = "x" * 9000 if kind == "large" else value(rng)
    nodes = {
        "think": lambda run, ctx: StepPlan(
            "think",
            Effect(EffectType.LLM_CALL, {"prompt": prompt, "n": value(rng)}, "thought"),
            "ask" if kind in ("ask", "cancel") else "act",
        ),
        "ask": lambda run, ctx: StepPlan("ask", Effect(EffectType.ASK_USER, {"prompt": "go on?"}, "answer"), "act"),
        "act": lambda run, ctx: StepPlan(
            "act", Effect(EffectType.TOOL_CALLS, {"tool_calls": [value(rng)]}, "done"), "end"
        ),
        "end": lambda run, ctx: StepPlan("end", complete_output={"output": value(rng)}),
    }
    workflow = WorkflowSpec(f"interop-{kind}", "think", nodes)
    runtime = Runtime(
        run_store=run_store,
        ledger_store=HashChainedLedgerStore(ledger),
        effect_handlers={EffectType.LLM_CALL: call, EffectType.TOOL_CALLS: call, EffectType.ASK_USER: ask},
        effect_policy=RetryPolicy(llm_max_attempts=3),
    )
    run_id = runtime.start(workflow=workflow, vars={"goal": value(rng)}, actor_id="ar_" + "0" * 24, session_id="s")
    state = runtime.tick(workflow=workflow, run_id=run_id)
    if kind == "ask":
        state = runtime.resume(workflow=workflow, run_id=run_id, wait_key="answer", payload={"text": value(rng)})
    elif kind == "cancel":
        state = runtime.cancel_run(run_id, reason="enough")
    return {"run": run_id, "kind": kind, "status": state.status.value}


def append(request):
    rng = random.Random(request["seed"])
    chained = HashChainedLedgerStore(stores(request["place"])[1])
    state = RunState.new(workflow_id="w", entry_node="n", vars={}, actor_id="ar_" + "1" * 24)
    state.run_id = request["run"]
    for _ in range(request["count"]):
        record = StepRecord.start(
            run=state, node_id="n", effect=Effect(EffectType.TOOL_CALLS, {"args": value(rng)}, None)
        )
        chained.append(record)
        record.finish_success({"value": value(rng)})
        chained.append(record)


def verify(request):
    return verify_ledger_chain(stores(request["place"])[1].list(request["run"]))


def bundle(request):
    run_store, ledger = stores(request["place"])
    return export_run_history_bundle(
        run_id=request["run"],
        run_store=run_store,
        ledger_store=ledger,
        ledger_mode=request["mode"],
        ledger_max_items=request["max"],
        detail=request["detail"],
    )


def verify_bundle(request):
    ledgers = json.loads(Path(request["path"]).read_text(encoding="utf-8"))["ledgers"]
    return {
        run_id: verify_ledger_chain([item["record"] for item in ledger["items"]])
        for run_id, ledger in ledgers.items()
    }


def hash_of(request):
    return compute_record_hash(record=json.loads(request["record"]), prev_hash=request["prev"])


def actor(request):
    return ActorFingerprint.from_metadata(
        kind=request["kind"], display_name=request["display_name"], metadata=request["metadata"]
    ).actor_id


OPERATIONS = {
    "run": run,
    "append": append,
    "verify": verify,
    "bundle": bundle,
    "verify_bundle": verify_bundle,
    "hash": hash_of,
    "actor": actor,
}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = OPERATIONS[request["op"]](request)
    except Exception as error:  # whatever the package raises is its answer
        answer = {"exception": type(error).__name__, "text": str(error)[:200]}
    print(json.dumps(answer), flush=True)
