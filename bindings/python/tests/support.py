"""What the tests share besides fixtures."""

import subprocess
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
TESTKIT = REPOSITORY / "testkit"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def change(path: Path, old: str, new: str) -> None:
    """Replaces a text of a file, which must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
