"""Asks the real Rye packages. One JSON request a line on stdin, one JSON answer a line on stdout.

Requests (paths are used as given, relative ones from the working directory):

    {"op": "verify_text", "path": P, "item": "directive" | "knowledge" | "tool" | "config"}
        {"valid": true, "hash": HEX} or {"valid": false, "error": first line} or {"crash": TEXT}
    {"op": "verify_json", "path": P}               true, false or {"crash": TEXT}
    {"op": "trusted_key", "path": P}               {"trusted": BOOL}; P is named FINGERPRINT.toml
    {"op": "sign_text", "path": P, "item": I}      null; the file is replaced, as Rye's own signer does
    {"op": "sign_json", "path": P}                 null; the file is replaced
    {"op": "extract", "text": T, "path": P, "item": I}
        {"signature": Rye's fields or null, "hashed": the text that Rye hashes}
    {"op": "canonical", "text": JSON}              the text that Rye hashes of a JSON document
    {"op": "fingerprint"}                          of the user's own key
    {"op": "verify_transcript", "path": P}
        {"strict": A, "lenient": A}; an A is Rye's report or {"crash": TEXT}
    {"op": "write_transcript", "folder": P, "thread": T, "entries": [[type, payload] or turn, …]}
        the path of the transcript that Rye wrote; a number is a checkpoint of that turn
    {"op": "messages", "path": P}                  the conversation that Rye resumes from it

Keys come from $USER_SPACE/.ai/config/keys (signing/ and trusted/). Works with ryeos-engine 0.1.18
(pure Python signatures) and 0.1.27 (signatures by the `lillux` program).
"""

import importlib
import inspect
import json
import logging
import os
import sys
import sysconfig
import tempfile
import unittest.mock
from pathlib import Path

logging.disable(logging.CRITICAL)

from rye.utils import integrity, trust_store  # noqa: E402
from rye.utils.metadata_manager import MetadataManager  # noqa: E402

NEEDS_CONTEXT = "ctx" in inspect.signature(integrity.verify_item).parameters


def context(project):
    """The keyword argument for the project: a context object since 0.1.19, a path before."""
    if not NEEDS_CONTEXT:
        return {"project_path": project}
    from rye.utils.execution_context import ExecutionContext

    return {"ctx": ExecutionContext.from_env(project_path=project)}


def bundled(name):
    """A module of Rye's agent, which is data of a bundle, not a package."""
    agent = Path(sysconfig.get_paths()["purelib"]) / "ryeos_std/.ai/tools/rye/agent"
    sys.path.insert(0, str(agent))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(agent))


SIGNER = bundled("threads.persistence.transcript_signer")
TRANSCRIPT = bundled("threads.persistence.transcript")
NOWHERE = Path("/nonexistent-project")


def verify_text(request):
    try:
        digest = integrity.verify_item(Path(request["path"]), request["item"], **context(NOWHERE))
    except integrity.IntegrityError as error:
        return {"valid": False, "error": str(error).splitlines()[0]}
    return {"valid": True, "hash": digest}


def verify_json(request):
    with open(request["path"], encoding="utf-8") as file:
        return SIGNER.verify_json(json.load(file))


def trusted_key(request):
    path = Path(request["path"])
    fingerprint = path.stem.rsplit(".", 1)[-1]
    # The file is in the trust folder of a project whose user trusts no key at all.
    with tempfile.TemporaryDirectory() as project:
        folder = Path(project) / ".ai/config/keys/trusted"
        folder.mkdir(parents=True)
        (folder / f"{fingerprint}.toml").write_bytes(path.read_bytes())
        with unittest.mock.patch.dict(os.environ, USER_SPACE=f"{project}/nobody"):
            store = trust_store.TrustStore(**context(Path(project)))
            return {"trusted": store.is_trusted(fingerprint)}


def sign_text(request):
    path = Path(request["path"])
    text = path.read_text(encoding="utf-8")
    path.write_text(MetadataManager.sign_content(request["item"], text, file_path=path), encoding="utf-8")


def sign_json(request):
    path = Path(request["path"])
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    # As `_write_thread_meta` of Rye's thread_directive.py writes it.
    path.write_text(json.dumps(SIGNER.sign_json(data), indent=2), encoding="utf-8")


def extract(request):
    path = Path(request["path"])
    signature = MetadataManager.get_signature_info(request["item"], request["text"], file_path=path)
    strategy = MetadataManager.get_strategy(request["item"], file_path=path)
    try:
        hashed = strategy.extract_content_for_hash(request["text"])
    except ValueError:
        hashed = None
    return {"signature": signature, "hashed": hashed}


def canonical(request):
    data = json.loads(request["text"])
    content = {k: v for k, v in data.items() if k != "_signature"}
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def fingerprint(_request):
    return trust_store.compute_key_fingerprint(SIGNER._get_keypair()[1])


def verify_transcript(request):
    signer = SIGNER.TranscriptSigner("any", Path("."))
    signer._jsonl_path = Path(request["path"])
    return {
        "strict": raised_or(signer.verify),
        "lenient": raised_or(lambda: signer.verify(allow_unsigned_trailing=True)),
    }


def write_transcript(request):
    transcript = TRANSCRIPT.Transcript(request["thread"], Path(request["folder"]))
    signer = SIGNER.TranscriptSigner(request["thread"], transcript._dir)
    for entry in request["entries"]:
        if isinstance(entry, int):
            signer.checkpoint(entry)
        else:
            transcript.write_event(request["thread"], *entry)
    return str(transcript._path)


def messages(request):
    with tempfile.TemporaryDirectory() as project:
        transcript = TRANSCRIPT.Transcript("any", Path(project))
        transcript._path = Path(request["path"])
        return transcript.reconstruct_messages()


def raised_or(function):
    """The result of `function`; an exception of Rye is part of its answer."""
    try:
        return function()
    except Exception as error:
        return {"crash": f"{type(error).__name__}: {error}"}


OPERATIONS = {
    f.__name__: f
    for f in (
        verify_text,
        verify_json,
        trusted_key,
        sign_text,
        sign_json,
        extract,
        canonical,
        fingerprint,
        verify_transcript,
        write_transcript,
        messages,
    )
}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        answer = raised_or(lambda: OPERATIONS[request["op"]](request))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
