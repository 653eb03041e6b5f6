# pyright: standard
"""The example of one framework, whose spans come through OpenInference. `EXAMPLE` names it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadseal import Identity, NotVerified, open_session, verify

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / f"{os.environ['EXAMPLE']}.py"


# T-PY-65
def test_an_example_records_model_and_tool_and_a_changed_answer_is_refused(tmp_path: Path, identity: Identity) -> None:
    words = [sys.executable, str(EXAMPLE), str(tmp_path)]
    # Frameworks keep files of their own in the user's folder.
    environment = {**os.environ, "HOME": str(tmp_path / "home")}
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "There are three leads." in done.stdout
    records = sorted((tmp_path / "traces").glob("*.jsonl"))
    events = [event for path in records for event in open_session(path, trust=identity.trust)]
    kinds = {kind: sum(event.type == kind for event in events) for kind in ("cognition_out", "tool_call_result")}
    assert kinds["cognition_out"] >= 2 and kinds["tool_call_result"] >= 1, done.stdout
    assert verify(tmp_path / "traces", trust=identity.trust).is_verified
    [*_, record] = [path for path in records if "three leads of Ada" in path.read_text()]
    record.write_text(record.read_text().replace("three leads of Ada", "seven leads of Ada"))
    with pytest.raises(NotVerified) as refused:
        open_session(record, trust=identity.trust)
    report = refused.value.report
    assert report is not None and report.verdict == "tampered"
