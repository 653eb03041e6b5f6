"""The lists of the testkit as questions of PROTOCOL.md, each with the answer that it lists.

`index.json` of a folder holds questions and answers as they are. The `expect.toml` of the other folders,
`keys/index.json` and `tlog/published.json` are written for people, and read here.
"""

import base64
import json
import pathlib
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
# Any moment from 2027 on: here 2027-01-15T08:00:00Z.
NOW = 1_800_000_000
# Flags of a list, and the member of a question; a number: the value is one.
FLAGS = {
    "--expect-head": "head",
    "--key": "pins",
    "--run": "thread",
    "--thread": "thread",
    "--profile": "profile",
    "--exact-head": "exact",
    "--strict-digits": "strict_digits",
    "--format": None,
}


class Listed(dict):
    """A question, the name and the rule of its vector, and what its answer must have."""

    def __init__(self, name: str, rule: str, question: dict, expected: dict, has: str | None = None) -> None:
        super().__init__(name=name, rule=rule, question={"now": NOW, **question}, expected=expected, has=has)


def all_lists() -> list[Listed]:
    """Every question of the testkit."""
    folders = ["native", "observed", "proofs", "rules/scroll", "rules/ledger", "rules/bundle", "rules/documents", "rules/tlog"]
    found = [listed for folder in folders for listed in index(HERE / folder)]
    return found + scrolls() + ledgers() + native_documents() + rye_documents() + transcripts() + notes()


def index(folder: pathlib.Path) -> list[Listed]:
    """The questions of a folder's index.json."""
    whole = json.loads((folder / "index.json").read_text())
    found = []
    for vector in whole["vectors"]:
        options = dict(vector.get("options", {}))
        usage = options.pop("usage", whole["usage"])
        trust = options.pop("trust", whole["trust"])
        files = {role: {"path": str(folder / name)} for role, name in vector["files"]}
        question = {"kind": vector["kind"], "files": files, "trust": keys(trust, usage), **options}
        expected = {name: vector[name] for name in ANSWER if name in vector}
        found.append(Listed(vector["name"], vector["rule"], question, expected))
    return found


ANSWER = ["verdict", "codes", "trusted_until", "reports", "answer", "signers", "at", "size"]


def keys(named: list[str], usage: str) -> list[dict]:
    """Keys in hex, of this usage or of the one that is before a colon."""
    pairs = [key.split(":") if ":" in key else [usage, key] for key in named]
    return [{"key": key, "usage": of} for of, key in pairs]


def toml(folder: str) -> dict:
    return tomllib.loads((HERE / folder / "expect.toml").read_text())


def by_flags(vector: dict) -> dict:
    """The members of a question that the flags of a vector stand for."""
    members: dict = {}
    flags = list(vector.get("flags", []))
    while flags:
        flag = flags.pop(0)
        member = FLAGS[flag]
        if flag in ("--exact-head", "--strict-digits"):
            members[member] = True
        elif member is None:
            flags.pop(0)
        else:
            value = flags.pop(0)
            members[member] = [value] if member == "pins" else value
    return members


def scrolls() -> list[Listed]:
    whole = toml("scroll")
    trust = keys([whole["trusted_key"]], "scroll")
    found = []
    for vector in whole["vector"]:
        files = {"scroll": {"path": str(HERE / "scroll" / vector["file"])}}
        question = {"kind": "scroll", "files": files, "trust": trust, **by_flags(vector)}
        found.append(Listed(vector["file"], vector["why"], question, {"verdict": vector["verdict"]}))
    return found


def ledgers() -> list[Listed]:
    found = []
    for vector in toml("ledger")["vector"]:
        files = {"ledger": {"path": str(HERE / "ledger" / vector["file"])}}
        question = {"kind": "ledger", "files": files, "trust": [], **by_flags(vector)}
        expected = {"verdict": vector["verdict"]}
        found.append(Listed(vector["file"], vector["why"], question, expected, vector.get("finding")))
    return found


def native_documents() -> list[Listed]:
    folder = "documents/native"
    usages = [("keys/native.pem", "native"), ("keys/rye.pem", "rye")]
    trust = [entry for name, usage in usages for entry in keys([pem(HERE / folder / name)], usage)]
    found = []
    for vector in toml(folder)["file"]:
        more = {name: vector[name] for name in ("head", "thread") if name in vector}
        for profile in ("auto", "native", "rye"):
            if profile in vector:
                found.append(document(folder, vector, profile, trust, more))
    return found


def rye_documents() -> list[Listed]:
    folder = "documents/rye"
    whole = toml(folder)
    found = []
    for vector in whole["file"]:
        trust = keys([pem(HERE / folder / name) for name in whole["trust"][vector.get("trust", "user")]], "rye")
        for item in dict.fromkeys([None, vector.get("item")]):
            more = {} if item is None else {"item": item}
            found += [document(folder, vector, profile, trust, more) for profile in ("auto", "rye") if profile in vector]
            if "pinned" in vector:
                found.append(document(folder, vector, "pinned", trust, {**more, "pins": [trust[0]["key"]]}))
    return found


def document(folder: str, vector: dict, profile: str, trust: list[dict], more: dict) -> Listed:
    files = {"document": {"path": str(HERE / folder / vector["file"])}}
    asked = {} if profile in ("auto", "pinned") else {"profile": profile}
    question = {"kind": "document", "files": files, "name": vector["file"], "trust": trust, **asked, **more}
    name = f"{folder}/{vector['file']} {profile} {more.get('item', '')}".rstrip()
    return Listed(name, vector["why"], question, {"verdict": vector[profile]})


def transcripts() -> list[Listed]:
    folder = HERE / "transcripts/rye"
    key_of = lambda name: pem(folder / f"keys/{name}_public.pem")
    found = []
    for vector in toml("transcripts/rye")["file"]:
        named = vector.get("trust", ["self", "colleague"])
        trust = keys([key_of(name) for name in ([named] if isinstance(named, str) else named)], "rye")
        asked = {"kind": "rye", "files": {"record": {"path": str(folder / vector["file"])}}, "trust": trust}
        ask = lambda verdict, has=None, **more: found.append(
            Listed(f"rye/{vector['file']}", vector["why"], {**asked, **more}, {"verdict": verdict}, has)
        )
        ask(vector["verdict"], vector.get("error"))
        if "pinned" in vector:
            ask(vector["pinned"], trust=[], pins=[key_of("self")])
        if "with_head" in vector:
            ask(vector["with_head"], head=vector["head"])
        if "thread" in vector:
            ask(vector.get("with_thread", vector["verdict"]), thread=vector["thread"])
    return found


def notes() -> list[Listed]:
    """Signed notes of this project, and those that others publish."""
    found = []
    for vector in json.loads((HERE / "keys/index.json").read_text()):
        if vector["kind"] == "note":
            files = {"note": {"path": str(HERE / "keys" / vector["file"])}}
            known = vector.get("known", [])
            named = vector.get("signers")
            expected = {"answer": vector["expect"]}
            if named is not None and vector["expect"] == "verified":
                expected["signers"] = by_name(known, named)
            found.append(Listed(vector["file"], vector["why"], {"kind": "note", "files": files, "keys": known}, expected))
    return found


def by_name(known: list[str], named: list[str]) -> list[str]:
    return [key for key in known if key.split("+")[0] in named]


def pem(path: pathlib.Path) -> str:
    """The 32 bytes of the key in a PEM file, in hex."""
    lines = path.read_text().splitlines()
    der = base64.b64decode("".join(line for line in lines if not line.startswith("-")))
    return der[-32:].hex()


def compare(listed: Listed, answer: dict) -> list[str]:
    """What differs, for people."""
    wrong = []
    for member, expected in listed["expected"].items():
        if answer.get(member) != expected:
            wrong.append(f"{member}: {answer.get(member)}, listed is {expected}")
    if listed["has"] is not None and listed["has"] not in answer.get("codes", []):
        wrong.append(f"codes: {answer.get('codes')}, {listed['has']} is listed")
    return wrong
