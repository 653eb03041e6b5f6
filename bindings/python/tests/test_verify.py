"""Verdicts: the same as those of the command, on the files of `testkit/`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import threadseal
import tomli
from support import TESTKIT, Command
from threadseal import (
    Home,
    Identity,
    InvalidInput,
    NotVerified,
    Recorder,
    Report,
    Trust,
    check_proof,
    open_session,
    prove,
    seal,
    verify,
)


def keys_of(folder: str) -> list[str]:
    """The keys that the list of a folder trusts."""
    index = TESTKIT / folder / "index.json"
    return [key.rsplit(":", 1)[-1] for key in json.loads(index.read_text())["trust"]]


def files_of(folder: str) -> list[Path]:
    """The files of a folder, without its lists; of the largest folder some."""
    lists = ("README.md", "index.json", "expect.toml")
    paths = (TESTKIT / folder).rglob("*")
    files = sorted(path for path in paths if path.is_file() and path.name not in lists)
    # Pairs of a log and its seals stay together.
    return files if folder != "observed" else [path for path in files if ord(path.name[0]) % 3 == 0]


# T-PY-10
@pytest.mark.parametrize("folder", ["native", "observed", "rules/scroll", "rules/ledger", "rules/documents"])
def test_reports_are_those_of_the_command(folder: str, command: Command) -> None:
    keys = keys_of(folder)
    options = [word for key in keys for word in ("--key", key)]
    files = files_of(folder)
    assert len(files) > 20
    printed = json.loads(command("verify", "--json", *options, *files, check=False).stdout)
    report = verify(*files, trust=Trust.of_home(Home.none(), keys=keys), home=Home.none())
    assert report.as_dict == printed
    assert len(report.results) + len(report.errors) >= len(files) // 3
    assert len(report.summary) > 3


@pytest.mark.parametrize(
    "folder", ["transcripts/native", "transcripts/rye", "scroll", "documents", "ledger", "lineage"]
)
def test_reports_on_folders_are_those_of_the_command(folder: str, command: Command) -> None:
    for options in ([], ["--every-signature"]):
        printed = json.loads(command("verify", "--json", *options, TESTKIT / folder, check=False).stdout)
        report = verify(TESTKIT / folder, every_signature=bool(options))
        assert report.as_dict == printed
        assert report.results and report.exit == printed["exit"]


def in_memory(path: Path, keys: list[str], **options: Any) -> Report:
    """The verdict on the bytes of a file and of the files beside it."""

    def beside(ending: str) -> bytes | None:
        other = path.with_name(path.name + ending)
        return other.read_bytes() if other.is_file() else None

    bodies = path.with_suffix(".bodies")
    trust = Trust.of(only=keys)
    return verify(
        path.read_bytes(),
        name=str(path),
        trust=trust,
        seal=beside(".seal"),
        head=beside(".head"),
        bodies=bodies.read_bytes() if bodies.is_file() else None,
        **options,
    )


# T-PY-10
@pytest.mark.parametrize("folder", ["native", "observed"])
def test_reports_on_bytes_are_those_on_files(folder: str) -> None:
    keys = keys_of(folder)
    endings = (".seal", ".head", ".bodies")
    files = [path for path in files_of(folder) if path.suffix not in endings]
    trust = Trust.of_home(Home.none(), keys=keys)
    differ = 0
    for path in files:
        on_disk = verify(path, trust=trust, home=Home.none())
        held = in_memory(path, keys)
        if [result.verdict for result in held.results] != [result.verdict for result in on_disk.results]:
            differ += 1
            print(path.name, [r.verdict for r in held.results], [r.verdict for r in on_disk.results])
    assert differ == 0
    assert len(files) > 50


# T-PY-11
def test_proofs_show_one_turn_and_changed_ones_are_refused(tmp_path: Path, identity: Identity) -> None:
    path = tmp_path / "t.jsonl"
    with Recorder(path, "agency/scout", identity=identity) as record:
        for number in range(1, 4):
            record.record("cognition_in", {"text": f"question {number}"})
            record.seal()
    proof = prove(path, 2, trust=identity.trust)
    assert b"question 2" in proof and b"question 1" not in proof and b"question 3" not in proof
    checked = check_proof(proof, trust=identity.trust)
    assert (checked.is_verified, checked.turn) == (True, 2)
    assert any("question 2" in line["text"] for line in checked.lines)
    forged = check_proof(proof.replace(b"question 2", b"question 9"), trust=identity.trust)
    assert forged.report.verdict in ("tampered", "forged") and not forged.is_verified
    assert check_proof(proof, trust=Trust.of()).report.verdict == "unknown_signer"
    (tmp_path / "two.turn-proof").write_bytes(proof)
    assert check_proof(tmp_path / "two.turn-proof", trust=identity.trust).is_verified
    path.write_text(path.read_text().replace("question 3", "question 9"))
    with pytest.raises(NotVerified):
        prove(path, 2, trust=identity.trust)


def test_the_command_checks_proofs_that_python_made(tmp_path: Path, home: Path, command: Command) -> None:
    with Recorder(tmp_path / "t.jsonl", "agency/scout") as record:
        record.record("cognition_in", {"text": "May I deploy?"})
    (tmp_path / "one.turn-proof").write_bytes(prove(tmp_path / "t.jsonl", 1))
    printed = json.loads(command("check-proof", "--json", tmp_path / "one.turn-proof").stdout)
    ours = check_proof(tmp_path / "one.turn-proof")
    assert (printed["turn"], printed["lines"]) == (ours.turn, list(ours.lines))
    assert printed["result"]["verdict"] == ours.report.verdict == "verified"


def test_documents_are_sealed_and_change_is_noticed(home: Path, tmp_path: Path, command: Command) -> None:
    for name, content in (("a.json", b'{"approved":true}'), ("b.md", b"# Approved\n"), ("c.yaml", b"a: 1\n")):
        sealed = seal(content, name)
        (tmp_path / name).write_bytes(sealed)
        command("verify", "-q", tmp_path / name)
        assert verify(tmp_path / name).is_verified
        (tmp_path / name).write_bytes(sealed.replace(b"a", b"b", 1))
        assert not verify(tmp_path / name).is_verified
        assert command("verify", "-q", tmp_path / name, check=False).returncode != 0


def test_requiring_a_verdict_raises_with_the_report(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"a":1}')
    with pytest.raises(NotVerified) as refused:
        verify(path).require()
    assert refused.value.report is not None and refused.value.report.verdict == "unsigned"
    with pytest.raises(NotVerified, match="cannot"):
        verify(tmp_path / "absent.json").require()
    assert verify(tmp_path / "absent.json").exit == 2


def test_wrong_arguments_are_named(tmp_path: Path, identity: Identity) -> None:
    with pytest.raises(ValueError):
        verify()
    with pytest.raises(ValueError):
        verify(b"{}", b"{}")
    for wrong in ({"profile": "x"}, {"format": "x"}, {"expect_head": "x"}, {"thread": ""}):
        with pytest.raises(InvalidInput):
            verify(b"{}", **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="need"):
        open_session(tmp_path / "t.jsonl", need="all")  # type: ignore[arg-type]
    with pytest.raises(threadseal.ThreadSealError):
        Trust.of("no key")


def test_the_module_runs_the_command_of_the_wheel() -> None:
    done = subprocess.run([sys.executable, "-m", "threadseal", "--version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"threadseal {threadseal.__version__}"


def test_every_public_name_has_a_text() -> None:
    for name in threadseal.__all__:
        public = getattr(threadseal, name)
        assert name == "__version__" or name == "Verdict" or public.__doc__, name
    project = tomli.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert project["project"]["name"] == threadseal.__name__
