"""What the tests share: a folder, keys, a home that the command of the wheel made."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import threadseal
from support import Command
from threadseal.command import find_command


@pytest.fixture
def identity(tmp_path: Path) -> threadseal.Identity:
    """Keys whose heads are in the folder of the test."""
    return threadseal.Identity.danger_with_seed(bytes(range(32)), tmp_path / "keys")


@pytest.fixture
def other(tmp_path: Path) -> threadseal.Identity:
    """Keys of another person."""
    return threadseal.Identity.danger_with_seed(bytes(range(1, 33)), tmp_path / "other")


@pytest.fixture(autouse=True)
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the home of the user who runs it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("THREADSEAL_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def command() -> Command:
    """Runs the command of the wheel; the test judges the exit code."""

    def run(*arguments: str | Path, check: bool = True) -> "subprocess.CompletedProcess[str]":
        words = [str(find_command()), *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ), stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def home(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with keys and a log, which the environment names."""
    path = tmp_path / "home"
    monkeypatch.setenv("THREADSEAL_HOME", str(path))
    command("init", "-q")
    yield path
