"""`TranscriptSigner`, `sign_json`, `verify_json`: Rye's signatures, without Rye.

```python
from threadseal.compat.rye import TranscriptSigner, sign_json, verify_json
```

Keys are where Rye has them: `$RYE_SIGNING_KEY_DIR`, else `$USER_SPACE/.ai/config/keys/signing`, and trusted keys
in `trusted` beside it. Answers are Rye's, word for word. They are weaker than a verdict: Rye reports a transcript
without any signature as valid. For more, use `threadseal.verify`, which reads the same files.
"""

import base64
import hashlib
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from .. import _native
from ..home import Trust
from ..verifying import verify


def key_folder() -> Path:
    """Where Rye has the key of this user."""
    if named := os.environ.get("RYE_SIGNING_KEY_DIR"):
        return Path(named)
    return _keys() / "signing"


def _keys() -> Path:
    return Path(os.environ.get("USER_SPACE") or Path.home()) / ".ai/config/keys"


def _private_pem() -> str:
    """The key of this user; made and trusted where there is none, as by Rye."""
    folder = key_folder()
    private, public = folder / "private_key.pem", folder / "public_key.pem"
    if not private.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        private_pem, public_pem = _native.new_key()
        descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(private_pem)
        public.write_text(public_pem)
    _trust_own(public.read_text())
    return private.read_text()


def _trust_own(public_pem: str) -> None:
    """Trusts the user's own key, as Rye does when it signs."""
    fingerprint = hashlib.sha256(public_pem.encode()).hexdigest()[:16]
    path = _keys() / "trusted" / f"{fingerprint}.toml"
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'version = "1.0.0"\ncategory = "keys/trusted"\nfingerprint = "{fingerprint}"\n'
        f'owner = "self"\n\n[public_key]\npem = """\n{public_pem}"""\n'
    )


def _trust() -> Trust:
    """The keys that the user trusts."""
    named = {str(path): path.read_bytes() for path in sorted((_keys() / "trusted").glob("*.toml"))}
    return Trust.of(files=named)


def _signature(content: bytes) -> tuple[str, str, str]:
    """The hash of a content, its signature and the fingerprint of the key."""
    digest = hashlib.sha256(content).hexdigest()
    signature, fingerprint = _native.rye_sign(_private_pem(), digest)
    return digest, base64.urlsafe_b64encode(signature).decode(), fingerprint


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _canonical(data: dict[str, Any]) -> bytes:
    content = {name: value for name, value in data.items() if name != "_signature"}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def sign_json(data: dict[str, Any]) -> dict[str, Any]:
    """Adds `_signature` to a dict of JSON values, and gives it back.

    >>> import os, tempfile
    >>> os.environ["USER_SPACE"] = tempfile.mkdtemp()
    >>> signed = sign_json({"thread_id": "t", "turns": 3})
    >>> verify_json(signed), verify_json({**signed, "turns": 4})
    (True, False)
    """
    digest, signature, fingerprint = _signature(_canonical(data))
    data["_signature"] = f"rye:signed:{_now()}:{digest}:{signature}:{fingerprint}"
    return data


def verify_json(data: dict[str, Any]) -> bool:
    """Is the signature that of a trusted key over all other members? As Rye answers."""
    if not data.get("_signature"):
        return False
    try:
        content = json.dumps(data).encode()
    except (TypeError, ValueError):
        return False
    report = verify(content, name="data.json", format="json", profile="rye", trust=_trust())
    return any(result.compat.get("rye") is True for result in report.results)


class TranscriptSigner:
    """Signs `transcript.jsonl` in a folder at the end of each turn.

    >>> import os, pathlib, tempfile
    >>> os.environ["USER_SPACE"] = tempfile.mkdtemp()
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "transcript.jsonl").write_text('{"event_type":"cognition_in","thread_id":"t"}\\n')
    >>> signer = TranscriptSigner("t", folder)
    >>> signer.checkpoint(1)
    >>> signer.verify()
    {'valid': True, 'checkpoints': 1}
    """

    def __init__(self, thread_id: str, thread_dir: Path) -> None:
        self._thread_id = thread_id
        self._path = Path(thread_dir) / "transcript.jsonl"

    def checkpoint(self, turn: int) -> None:
        """Signs the transcript as it is; without one nothing happens."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        digest, signature, fingerprint = _signature(content)
        payload = {
            "turn": turn,
            "byte_offset": len(content),
            "hash": digest,
            "sig": signature,
            "fp": fingerprint,
            "ts": _now(),
        }
        entry: dict[str, Any] = {
            "timestamp": time.time(),
            "thread_id": self._thread_id,
            "event_type": "checkpoint",
            "payload": payload,
        }
        with open(self._path, "a") as file:
            file.write(json.dumps(entry) + "\n")

    def verify(self, *, allow_unsigned_trailing: bool = False) -> dict[str, Any]:
        """Rye's answer; with `allow_unsigned_trailing` content after the last checkpoint is allowed.

        Where Rye itself fails with an exception, this raises `ValueError` with its name.
        """
        unsigned: dict[str, Any] = {"valid": True, "checkpoints": 0, "unsigned": True}
        if not self._path.exists() or not (content := self._path.read_bytes()):
            return unsigned
        report = verify(content, name="transcript.jsonl", format="transcript", profile="rye", trust=_trust())
        answers = next((result.compat["rye"] for result in report.results if "rye" in result.compat), None)
        if answers is None:
            raise ValueError("the transcript cannot be read")
        answer = cast(dict[str, Any], answers["lenient" if allow_unsigned_trailing else "strict"])
        if "crash" in answer:
            raise ValueError(answer["crash"])
        return answer
