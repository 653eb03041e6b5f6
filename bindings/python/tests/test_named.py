"""Records beside data of other programs: names, crashes, kinds and stores, keys that are replaced."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import Command
from threadseal import Identity, KeyRefused, NotVerified, Recorder, ThreadSealError, verify
from threadseal._named import NamedRecords, SealedItems, earlier_path_of, open_named, path_of


def items(folder: Path, identity: Identity, name: str = "ada", kind: str = "list", store: str = "") -> SealedItems:
    """The list of a name, as the next process opens it."""
    opened = open_named(folder, kind, name, identity, True, store)
    assert opened is not None
    return SealedItems(opened[0], name, opened[1])


def add(
    folder: Path, identity: Identity, *digests: str, name: str = "ada", kind: str = "list", store: str = ""
) -> Path:
    """Adds digests and gives the record up; where it is."""
    found = items(folder, identity, "ada", kind, store)
    found.seal("items_added", {"digests": list(digests)})
    found.recorder.close()
    return found.recorder.path


def digests(folder: Path, identity: Identity, name: str = "ada", kind: str = "list", store: str = "") -> list[str]:
    found = items(folder, identity, name, kind, store)
    found.recorder.close()
    return found.digests


KILLED = """
import os, signal, sys
from pathlib import Path
from threadseal import Identity, Recorder, _named

folder, at = Path(sys.argv[1]), sys.argv[2]
genuine = getattr(Recorder, at)
def killed(self, *given):
    if at == "seal":
        self.sync()
    os.kill(os.getpid(), signal.SIGKILL)
setattr(Recorder, at, killed)
_named.open_named(folder / "seals", "list", "ada", Identity.danger_with_seed(bytes(range(32)), folder / "keys"), True)
"""


# T-PY-15
@pytest.mark.parametrize("at", ["record", "seal"])
def test_a_record_that_was_killed_before_its_name_is_named(tmp_path: Path, identity: Identity, at: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), at], env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    seals = tmp_path / "seals"
    assert path_of(seals, "ada", "list").exists()
    add(seals, identity, "1")
    assert digests(seals, identity) == ["1"]
    # A record without events that belongs to another name takes no place.
    stolen = path_of(seals, "bob", "list")
    Recorder(tmp_path / "empty.jsonl", f"list/{path_of(seals, 'eve', 'list').stem}", identity=identity).close()
    shutil.copy(tmp_path / "empty.jsonl", stolen)
    with pytest.raises(ThreadSealError):
        items(seals, identity, "bob")


# T-PY-16
def test_names_of_several_kinds_and_stores_share_a_folder(tmp_path: Path, identity: Identity) -> None:
    for kind in ("openai-session", "langgraph"):
        for store in ("", "other"):
            add(tmp_path, identity, f"{kind} {store}", kind=kind, store=store)
    for kind in ("openai-session", "langgraph"):
        for store in ("", "other"):
            assert digests(tmp_path, identity, kind=kind, store=store) == [f"{kind} {store}"]
    assert len(list(tmp_path.glob("*.jsonl"))) == 4 and verify(tmp_path, trust=identity.trust).verdict == "open"


def earlier(folder: Path, identity: Identity, kind: str) -> Path:
    """A record of a name in the place that it had before its kind counted."""
    path = earlier_path_of(folder, "ada")
    folder.mkdir(exist_ok=True)
    with Recorder(path, f"{kind}/{path.stem}", identity=identity, at_exit="open") as record:
        record.record(f"{kind}_named", {"name": "ada"})
        record.record("items_added", {"digests": ["before"]})
    return path


# T-PY-16
def test_a_record_of_before_is_found_and_missed(tmp_path: Path, identity: Identity) -> None:
    seals = tmp_path / "seals"
    path = earlier(seals, identity, "list")
    assert add(seals, identity, "after") == path
    assert digests(seals, identity) == ["before", "after"]
    # Another kind begins a record of its own.
    assert digests(seals, identity, kind="langgraph") == []
    kept = path.read_bytes()
    other = tmp_path / "other.jsonl"
    with Recorder(other, f"another/{path.stem}", identity=identity, at_exit="open") as record:
        record.record("another_named", {"name": "ada"})
    for content in (None, other.read_bytes()):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(NotVerified):
            items(seals, identity)
        path.write_bytes(kept)
    assert digests(seals, identity) == ["before", "after"]


# T-PY-17
def test_a_list_is_continued_after_its_record_ended(tmp_path: Path, identity: Identity) -> None:
    first = add(tmp_path, identity, "1")
    older = first.read_bytes()
    for number in range(2):
        path = first if number == 0 else first.with_name(f"{first.stem}.{number}.jsonl")
        Recorder.resume(path, identity=identity).end()
        add(tmp_path, identity, f"{number + 2}")
    assert digests(tmp_path, identity) == ["1", "2", "3"]
    records = sorted(tmp_path.glob("*.jsonl"), key=lambda path: len(path.name))
    assert records[0] == first and len(records) == 3
    # Each of them counts: removed, an older copy, changed, or another one in its place.
    for path in records:
        genuine = path.read_bytes()
        attacks = [None, genuine.replace(b'"digests":["', b'"digests":["9'), records[records[0] == path].read_bytes()]
        for attack in [*attacks, older] if path == first else attacks:
            path.unlink()
            if attack is not None:
                path.write_bytes(attack)
            with pytest.raises(NotVerified):
                items(tmp_path, identity)
            path.write_bytes(genuine)
    assert digests(tmp_path, identity) == ["1", "2", "3"]


def test_a_crash_between_a_record_and_its_successor_is_continued(tmp_path: Path, identity: Identity) -> None:
    first = add(tmp_path, identity, "1")
    Recorder.resume(first, identity=identity).end()
    later = first.with_name(f"{first.stem}.1.jsonl")
    Recorder(later, f"list/{later.stem}", identity=identity, at_exit="open").close()
    assert add(tmp_path, identity, "2") == later
    assert digests(tmp_path, identity) == ["1", "2"]


# T-PY-18
@pytest.mark.parametrize("way", ["ended", "anyway", "with a tail"])
def test_a_list_is_continued_after_its_key_was_replaced(home: Path, command: Command, tmp_path: Path, way: str) -> None:
    seals = tmp_path / "seals"
    first = add(seals, Identity.of_home(), "1")
    refused = command("key", "rotate", "self", check=False)
    assert refused.returncode == 2 and "seal --final" in refused.stderr
    if way == "ended":
        command("seal", "--final", first)
        command("key", "rotate", "self")
    else:
        if way == "with a tail":
            crashed = Recorder.resume(first, identity=Identity.of_home())
            crashed.record("items_added", {"digests": ["without a seal"]})
            crashed._inner.abandon()
        command("key", "rotate", "self", "--anyway")
    later = add(seals, Identity.of_home(), "2")
    assert later.name == f"{first.stem}.1.jsonl"
    assert digests(seals, Identity.of_home()) == ["1", "2"]
    first.write_bytes(first.read_bytes().replace(b'"1"', b'"9"'))
    with pytest.raises(NotVerified):
        items(seals, Identity.of_home())


# T-PY-18
def test_a_record_of_a_trusted_person_is_no_predecessor(
    home: Path, command: Command, tmp_path: Path, other: Identity
) -> None:
    command("trust", "add", other.did, "--name", "friend")
    seals = tmp_path / "seals"
    first = add(seals, other, "theirs")
    Recorder.resume(first, identity=other).end()
    assert verify(first).verdict == "verified"
    with pytest.raises(KeyRefused, match="may not seal the record"):
        items(seals, Identity.of_home())


def test_a_write_that_failed_does_not_keep_the_others_open(tmp_path: Path, identity: Identity) -> None:
    records = NamedRecords(tmp_path, "list", identity, SealedItems)
    for name in ("a", "b"):
        with records.using(name) as found:
            assert found is not None
            found.seal("items_added", {"digests": ["1"]})
    with records.using("a") as found:
        assert found is not None
        size = found.recorder.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        with pytest.raises(ThreadSealError, match="cannot write"), records.using("a") as found:
            assert found is not None
            found.seal("items_added", {"digests": ["x" * 2000]})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    # There is space again.
    with records.using("a") as found:
        assert found is not None and found.digests == ["1"]
        found.seal("items_added", {"digests": ["2"]})
    records.release()
    assert digests(tmp_path, identity, "a") == ["1", "2"] and digests(tmp_path, identity, "b") == ["1"]
