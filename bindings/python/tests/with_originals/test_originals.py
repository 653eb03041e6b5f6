# pyright: standard
"""Our modules and the originals: each reads what the other wrote, and both answer alike on changed files."""

import copy
import hashlib
import importlib
import json
import os
import random
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import agent_scroll as scroll_original
import pytest
from abstractruntime.core.models import StepRecord, StepStatus
from abstractruntime.storage import ledger_chain as ledger_original
from abstractruntime.storage.json_files import JsonlLedgerStore
from abstractruntime.storage.sqlite import SqliteDatabase, SqliteLedgerStore
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support import TESTKIT
from threadseal import Identity, NotVerified
from threadseal.compat import abstractruntime as ledger
from threadseal.compat import agent_scroll as scroll
from threadseal.compat import rye

WORDS = ["plan", "é", "日本", "𐐷", "\u2028", 'quote"', "\x7f", "\\", "🙂", "line\nbreak"]


def rye_original() -> Any:
    """Rye's module, which is data of a bundle."""
    agent = Path(sysconfig.get_paths()["purelib"]) / "ryeos_std/.ai/tools/rye/agent"
    sys.path.insert(0, str(agent))
    try:
        return importlib.import_module("threads.persistence.transcript_signer")
    finally:
        sys.path.remove(str(agent))


@pytest.fixture
def user_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user of Rye, whose key we made."""
    monkeypatch.setenv("USER_SPACE", str(tmp_path / "user"))
    monkeypatch.delenv("RYE_SIGNING_KEY_DIR", raising=False)
    # The key of the user: Rye wants one that is there and trusted.
    rye.sign_json({})
    return tmp_path / "user"


def value(dice: random.Random, depth: int = 0) -> Any:
    """Any JSON value."""
    kind = dice.randrange(7 if depth < 3 else 5)
    if kind == 0:
        return dice.choice([None, True, False, 0, -1, 2**53, 1.5, 1e300])
    if kind < 5:
        return " ".join(dice.choice(WORDS) for _ in range(dice.randrange(5)))
    if kind == 5:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(WORDS) + str(n): value(dice, depth + 1) for n in range(dice.randrange(4))}


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_rye_and_ours_sign_json_for_each_other(user_space: Path, first: str) -> None:
    theirs, dice = rye_original(), random.Random(3)
    signers = [rye, theirs] if first == "ours" else [theirs, rye]
    for signer in signers:
        for number in range(40):
            data = {"thread_id": f"t/{number}", "value": value(dice)}
            signed = signer.sign_json(dict(data))
            for judge in (rye, theirs):
                assert judge.verify_json(signed) is True, (signer, judge, signed)
                assert judge.verify_json({**signed, "thread_id": "other"}) is False
                assert judge.verify_json(data) is False
    # One key serves both.
    assert len(list((user_space / ".ai/config/keys/signing").glob("*"))) == 2


def test_other_keys_are_trusted_where_rye_trusts_them(
    user_space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = rye.sign_json({"a": 1})
    public = (user_space / ".ai/config/keys/signing/public_key.pem").read_bytes()
    monkeypatch.setenv("USER_SPACE", str(tmp_path / "second"))
    theirs = rye_original()
    assert (rye.verify_json(signed), theirs.verify_json(signed)) == (False, False)
    fingerprint = hashlib.sha256(public).hexdigest()[:16]
    trusted = tmp_path / "second/.ai/config/keys/trusted" / f"{fingerprint}.toml"
    trusted.parent.mkdir(parents=True)
    # An unsigned file in its folder is enough for Rye.
    trusted.write_text(
        f'version = "1.0.0"\ncategory = "keys/trusted"\nfingerprint = "{fingerprint}"\nowner = "first"\n'
        f'attestation = ""\n\n[public_key]\npem = """\n{public.decode()}"""\n'
    )
    assert (rye.verify_json(signed), theirs.verify_json(signed)) == (True, True)


def edited(content: bytes, dice: random.Random) -> bytes:
    """The content with one or two changes, or none."""
    for _ in range(dice.choice([0, 1, 1, 2])):
        lines = content.splitlines(keepends=True)
        at = dice.randrange(max(1, len(lines)))
        match dice.randrange(5):
            case 0:
                place = dice.randrange(len(content) + 1)
                content = content[:place] + bytes([dice.randrange(32, 127)]) + content[place + 1 :]
            case 1:
                content = b"".join(lines[:at] + lines[at + 1 :])
            case 2:
                content = b"".join(lines[:at])
            case 3:
                content += b'{"event_type":"note","thread_id":"t","payload":{}}\n'
            case _:
                content = b"".join(lines[:at] + [lines[dice.randrange(len(lines))]] + lines[at:]) if lines else b""
    return content


def answer(signer: Any, **options: Any) -> Any:
    """The answer of a signer, or that it raised."""
    try:
        return signer.verify(**options)
    except Exception as error:
        return type(error).__name__ if isinstance(error, AttributeError) else "raised"


# T-PY-40
@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_rye_and_ours_answer_alike_on_changed_transcripts(user_space: Path, tmp_path: Path, writer: str) -> None:
    theirs, dice = rye_original(), random.Random(5)
    signer = (rye if writer == "ours" else theirs).TranscriptSigner("t", tmp_path)
    path = tmp_path / "transcript.jsonl"
    for turn in range(1, 6):
        with open(path, "a") as file:
            for _ in range(3):
                event = {"timestamp": 1.5, "thread_id": "t", "event_type": "note", "payload": {"v": value(dice)}}
                file.write(json.dumps(event) + "\n")
        signer.checkpoint(turn)
    genuine = path.read_bytes()
    judges = (rye.TranscriptSigner("t", tmp_path), theirs.TranscriptSigner("t", tmp_path))
    assert [judge.verify() for judge in judges] == [{"valid": True, "checkpoints": 5}] * 2
    refused = 0
    for _ in range(300):
        path.write_bytes(edited(genuine, dice))
        for lenient in (False, True):
            ours, their = (answer(judge, allow_unsigned_trailing=lenient) for judge in judges)
            if "raised" in (ours, their) or isinstance(their, str):
                # An exception of theirs is one of ours.
                assert isinstance(ours, str) and isinstance(their, str)
            else:
                assert ours == their
            refused += ours != {"valid": True, "checkpoints": 5}
    assert refused > 200
    path.unlink()
    assert judges[0].verify() == judges[1].verify()


def steps(run: str, count: int, dice: random.Random) -> list[StepRecord]:
    """Steps of a run."""
    status: Any = "completed"
    return [
        StepRecord(
            run_id=run,
            step_id=f"s{number}",
            node_id=dice.choice(WORDS),
            status=status,
            effect={"type": "llm_call", "payload": {"v": value(dice)}},
            result={"v": value(dice)},
            started_at="2026-01-01T00:00:00+00:00",
            ended_at="2026-01-01T00:00:01+00:00",
        )
        for number in range(count)
    ]


def places(folder: Path) -> list[Any]:
    """The stores of AbstractRuntime."""
    return [JsonlLedgerStore(str(folder / "lines")), SqliteLedgerStore(SqliteDatabase(str(folder / "ledger.db")))]


def test_abstractruntime_and_ours_chain_alike(tmp_path: Path) -> None:
    for ours_store, their_store in zip(places(tmp_path / "ours"), places(tmp_path / "theirs"), strict=True):
        ours, theirs = ledger.HashChainedLedgerStore(ours_store), ledger_original.HashChainedLedgerStore(their_store)
        for store in (ours, theirs):
            for step in steps("r", 20, random.Random(2)):
                store.append(copy.deepcopy(step))
        assert ours.list("r") == theirs.list("r")
        assert ledger.verify_ledger_chain(theirs.list("r")) == ledger_original.verify_ledger_chain(ours.list("r"))
        assert ledger.verify_ledger_chain(ours.list("r"))["ok"]


# T-PY-41
def test_abstractruntime_and_ours_report_alike_on_changed_ledgers(tmp_path: Path) -> None:
    store = ledger.HashChainedLedgerStore(places(tmp_path)[0])
    dice = random.Random(4)
    for step in steps("r", 12, dice):
        store.append(step)
    genuine = store.list("r")
    bad = 0
    for _ in range(400):
        records = copy.deepcopy(genuine)
        for _ in range(dice.choice([1, 1, 2])):
            at = dice.randrange(len(records))
            match dice.randrange(6):
                case 0:
                    records[at][dice.choice(["result", "node_id", "effect"])] = value(dice)
                case 1:
                    del records[at]
                case 2:
                    records.insert(at, copy.deepcopy(records[dice.randrange(len(records))]))
                case 3:
                    records[at]["record_hash"] = dice.choice([None, "", "0" * 64])
                case 4:
                    records[at]["prev_hash"] = dice.choice([None, "0" * 64])
                case _:
                    records = records[: at + 1]
        ours, theirs = ledger.verify_ledger_chain(records), ledger_original.verify_ledger_chain(records)
        assert ours == theirs
        bad += not ours["ok"]
    assert bad > 200


# T-PY-42
@pytest.mark.parametrize("kind", [0, 1])
def test_a_ledger_that_was_hashed_anew_is_refused(tmp_path: Path, identity: Identity, kind: int) -> None:
    def opened() -> ledger.HashChainedLedgerStore:
        return ledger.HashChainedLedgerStore(places(tmp_path)[kind], seals=tmp_path / "seals", identity=identity)

    store = opened()
    for step in steps("r", 4, random.Random(1)):
        store.append(step)
    genuine = store.list("r")
    store.release()
    # Every record is changed, and the chain made anew: AbstractRuntime reports that it holds.
    forged = ledger_original.HashChainedLedgerStore(places(tmp_path / "forged")[kind])
    for step in steps("r", 4, random.Random(9)):
        forged.append(step)
    assert ledger_original.verify_ledger_chain(forged.list("r"))["ok"]
    assert forged.list("r") != genuine

    def replaced() -> ledger.HashChainedLedgerStore:
        inner = places(tmp_path / "forged")[kind]
        return ledger.HashChainedLedgerStore(inner, seals=tmp_path / "seals", identity=identity)

    store = replaced()
    with pytest.raises(NotVerified, match="is not the one that was sealed"):
        store.list("r")
    with pytest.raises(NotVerified, match="is not the one that was sealed"):
        store.append(steps("r", 1, random.Random(1))[0])
    store.release()
    store = opened()
    assert store.list("r") == genuine
    store.append(steps("r", 1, random.Random(8))[0])
    assert len(store.list("r")) == 5
    store.release()
    # A run whose ledger and record are gone is missed.
    for path in (tmp_path / "seals").glob("*.jsonl"):
        path.unlink()
    with pytest.raises(NotVerified, match="is missing"):
        opened().list("r")


def evil_row(after: dict[str, Any]) -> StepRecord:
    """A record with a hash that fits after another one; its writer has no key."""
    [step] = steps("r", 1, random.Random(66))
    step.status, step.idempotency_key, step.result = StepStatus.COMPLETED, "pay-42", {"paid": "to the attacker"}
    step.prev_hash = after["record_hash"]
    step.record_hash = ledger.compute_record_hash(record=ledger._fields(step), prev_hash=step.prev_hash)
    return step


# T-PY-44
@pytest.mark.parametrize("kind", [0, 1])
def test_an_append_seals_no_record_of_another_writer(tmp_path: Path, identity: Identity, kind: int) -> None:
    def opened() -> ledger.HashChainedLedgerStore:
        return ledger.HashChainedLedgerStore(places(tmp_path)[kind], seals=tmp_path / "seals", identity=identity)

    store = opened()
    honest = steps("r", 4, random.Random(1))
    for step in honest[:2]:
        store.append(step)
    genuine = store.list("r")
    places(tmp_path)[kind].append(evil_row(genuine[-1]))
    assert ledger_original.verify_ledger_chain(places(tmp_path)[kind].list("r"))["ok"]
    for _ in range(2):
        with pytest.raises(NotVerified, match="1 records without a seal; hint: remove them, or adopt"):
            store.append(copy.deepcopy(honest[2]))
        assert store.list("r") == genuine
        assert store.find_completed_result("r", "pay-42") is None
        store.release()
        store = opened()
    # A person looked at it.
    assert store.adopt("r") == 1 and len(store.list("r")) == 3
    store.append(honest[2])
    assert len(store.list("r")) == 4
    store.release()


class Racing:
    """A store in which another writer stores a record first, or after."""

    def __init__(self, inner: Any, first: bool, row: StepRecord) -> None:
        self.inner, self.first, self.row = inner, first, row

    def append(self, record: Any) -> None:
        for one in (self.row, record) if self.first else (record, self.row):
            self.inner.append(one)

    def list(self, run_id: str) -> Any:
        return self.inner.list(run_id)


# T-PY-44
@pytest.mark.parametrize("first", [True, False])
def test_a_record_that_is_stored_meanwhile_gets_no_seal(tmp_path: Path, identity: Identity, first: bool) -> None:
    inner = places(tmp_path)[0]
    store = ledger.HashChainedLedgerStore(inner, seals=tmp_path / "seals", identity=identity)
    honest = steps("r", 2, random.Random(1))
    store.append(honest[0])
    store._inner = Racing(inner, first, evil_row(store.list("r")[-1]))
    with pytest.raises(NotVerified, match="records without a seal"):
        store.append(honest[1])
    assert "attacker" not in str(store.list("r")) and len(store.list("r")) == (1 if first else 2)
    store.release()


@pytest.mark.parametrize("stored", [True, False])
def test_a_record_that_a_crash_left_is_known(tmp_path: Path, identity: Identity, stored: bool) -> None:
    class Crash(BaseException):
        """The process ends."""

    class Crashing(Racing):
        def append(self, record: Any) -> None:
            if stored:
                self.inner.append(record)
            raise Crash

    inner = places(tmp_path)[0]
    honest = steps("r", 3, random.Random(1))
    store = ledger.HashChainedLedgerStore(inner, seals=tmp_path / "seals", identity=identity)
    store.append(honest[0])
    store._inner = Crashing(inner, False, honest[0])
    with pytest.raises(Crash):
        store.append(honest[1])
    store.release()
    store = ledger.HashChainedLedgerStore(inner, seals=tmp_path / "seals", identity=identity)
    assert len(store.list("r")) == (2 if stored else 1)
    store.append(honest[2])
    assert store.list("r") == inner.list("r") and len(inner.list("r")) == (3 if stored else 2)
    store.release()


def turn(number: int, dice: random.Random) -> dict[str, Any]:
    return {
        "version": "scroll/0.1",
        "turn": number,
        "role": dice.choice(["user", "assistant", "tool", "system"]),
        "model": {"vendor": "v", "id": "m"},
        "params": {"temperature": dice.choice([0, 0.5]), "top_p": 1},
        "messages": [{"role": "user", "content": " ".join(dice.choice(WORDS) for _ in range(4))}],
        "timestamp_ns": 1_000_000 + number,
    }


def said(result: Any) -> Any:
    """An answer without the words of its details."""
    return result.ok, [(failure.turn, failure.reason) for failure in result.failures]


# T-PY-43
@pytest.mark.parametrize("signed", [False, True])
def test_agent_scroll_and_ours_seal_and_answer_alike(signed: bool) -> None:
    dice = random.Random(6)
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    key, public = private.private_bytes_raw(), private.public_key().public_bytes_raw()
    turns: list[Any] = [turn(number, dice) for number in range(8)]
    ours = scroll.seal_chain(turns, scroll.SignOpts(key, public) if signed else None)
    theirs = scroll_original.seal_chain(turns, scroll_original.SignOpts(key, public) if signed else None)
    assert ours == theirs
    assert [scroll.canonical(item) for item in ours] == [scroll_original.canonical(item) for item in ours]
    assert [scroll.hash_canonical(item) for item in turns] == [scroll_original.hash_canonical(item) for item in turns]
    wrong = 0
    for _ in range(300):
        chain: list[Any] = copy.deepcopy(ours)
        at = dice.randrange(len(chain))
        match dice.randrange(6):
            case 0:
                chain[at]["messages"] = [{"role": "user", "content": dice.choice(WORDS)}]
            case 1:
                del chain[at]
            case 2:
                chain[at]["hash"] = "sha256:" + "0" * 64
            case 3:
                chain[at].pop(dice.choice(["hash", "role", "model", "turn", "sig"]), None)
            case 4:
                chain[at], chain[0] = chain[0], chain[at]
            case _:
                chain[at]["prev_hash"] = "sha256:" + "1" * 64
        for pubkey in (None, public, bytes(range(32))):
            assert said(scroll.verify(chain, pubkey)) == said(scroll_original.verify(chain, pubkey))
        wrong += not scroll.verify(chain, public).ok
    assert wrong > 200


def test_the_own_tests_of_the_originals_pass_over_ours() -> None:
    sources = Path(os.environ["ORIGINALS"])
    files = [
        *sources.glob("agent_scroll-*/tests/test_conformance.py"),
        *sources.glob("abstractruntime-*/tests/test_ledger_chain.py"),
    ]
    assert len(files) == 2
    for path in files:
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "standin",
            "--noconftest",
            path.name,
        ]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run(words, capture_output=True, text=True, cwd=path.parent, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout


def test_the_testkit_has_the_scrolls_that_both_know() -> None:
    public = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key().public_bytes_raw()
    # For Python `true` is a number: theirs accepts it and finds another hash, ours reports the schema.
    booleans = {"true-as-number.json"}
    compared = 0
    for path in sorted((TESTKIT / "scroll").rglob("*.json*")):
        try:
            text = path.read_text()
            chain = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
            theirs = said(scroll_original.verify(chain, public))
        except Exception:
            # Not for both: theirs reads no other shape.
            continue
        if isinstance(chain, list) and chain and all(isinstance(item, dict) for item in chain):
            ours = said(scroll.verify(chain, public))
            if "inf" in repr(chain) or "nan" in repr(chain) or path.name in booleans:
                # A number that JSON does not have: neither accepts it, and ours reads no further.
                assert (ours[0], theirs[0]) == (False, False)
            else:
                assert ours == theirs, path
            compared += 1
    assert compared > 5
