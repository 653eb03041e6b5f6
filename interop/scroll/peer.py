"""Drives the PyPI package `agent-scroll`; requests and answers as in `peer/src/main.rs`."""

import json
import sys
from pathlib import Path

from agent_scroll import SignOpts, canonical, seal_chain, verify
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def answer(request):
    document = json.loads(Path(request["file"]).read_text("utf-8"))
    key = bytes.fromhex(request["key"]) if request.get("key") else None
    if request["op"] == "canon":
        return {"hex": canonical(document).hex()}
    if request["op"] == "verify":
        result = verify(document, key)
        failures = [[failure.turn, failure.reason] for failure in result.failures]
        return {"ok": True} if result.ok else {"failures": failures}
    if request["op"] == "seal":
        pubkey = key and Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
        sealed = seal_chain(document, SignOpts(privkey=key, pubkey=pubkey) if key else None)
        Path(request["out"]).write_text(json.dumps(sealed, ensure_ascii=False), "utf-8")
        return {"ok": True}
    raise ValueError("no such op")


for line in sys.stdin:
    try:
        reply = answer(json.loads(line))
    # An exception instead of an answer is the finding of this check.
    except Exception as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(reply), flush=True)
