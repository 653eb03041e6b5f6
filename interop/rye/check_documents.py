"""Signed documents in both directions, and the answers of both sides on damaged ones."""

import json
import random
import re

from rig import Rig

DIRECTIVE = """# Title é

```xml
<directive name="x" version="1.0.0">
  <process>body 🦀</process>
</directive>
```

prose behind it
"""

# Rye adds the final newline after this shebang, and only after it took the hash.
UNREADABLE_TO_ITSELF = {"only.sh"}

# name, item, content
TEXTS = [
    ("plain.md", "knowledge", "# Plain é\n\nText without front matter.\n"),
    ("front.md", "knowledge", "---\nname: x\nstatus: running\n---\n\n  body\u2028 \n"),
    ("dashes.md", "knowledge", "-----\nno front matter\n"),
    ("empty.md", "knowledge", ""),
    ("torn.md", "knowledge", "no final newline"),
    ("directive.md", "directive", DIRECTIVE),
    ("plain.py", "tool", '__version__ = "1.0.0"\nprint("é")\n'),
    ("shebang.py", "tool", "#!/usr/bin/env python3\nprint(1)\n"),
    ("two.sh", "tool", "#!/bin/sh\n#!/bin/false\necho ok\n"),
    ("only.sh", "tool", "#!/bin/sh"),
    ("x.yaml", "tool", "a: 1\n# comment\n"),
    ("x.yml", "config", "a: [1, 2]\n"),
    ("x.toml", "config", 'a = "b"\n'),
    ("x.ts", "tool", "export const a = 1;\n"),
    ("x.mjs", "tool", "export {};\n"),
]

JSONS = [
    ("plain.json", {"thread_id": "a/b-1", "status": "running", "n": 1}),
    ("floats.json", {"f": [1e16, 1e-7, 0.1, -0.0, 5e-324, 1.0, 123456789.123], "i": [2**70, -1, 0]}),
    ("texts.json", {"é": "\u2028\x7f\x00🦀", "\uffff": 1, "🦀": 2, "": [None, True, {}], '"\\/': "\b\f\n\r\t"}),
    ("empty.json", {}),
    ("nested.json", {"b": {"z": 1, "a": {"k": []}}, "a": [[], [{}]]}),
]


def write_all(folder):
    """Every document, unsigned: (path, item or None for JSON)."""
    documents = []
    for name, item, text in TEXTS:
        (folder / name).write_bytes(text.encode())
        documents.append((folder / name, item))
    for name, data in JSONS:
        (folder / name).write_text(json.dumps(data, indent=2))
        documents.append((folder / name, None))
    return documents


def verify_at(rye, path, item):
    """Whether Rye accepts the file."""
    if item is None:
        return rye.ask(op="verify_json", path=str(path))
    return rye.ask(op="verify_text", path=str(path), item=item).get("valid")


def sign_at(rye, path, item):
    operation = "sign_json" if item is None else "sign_text"
    answer = rye.ask(op=operation, path=str(path), item=item)
    assert answer is None, (path, answer)


def ours_to_theirs(rig):
    for path, item in write_all(rig.work("ours")):
        if path.name == "x.yml":
            item = "tool"  # the command signs YAML as a tool
        rig.expect(f"sign {path.name}", rig.run("seal", "--profile", "rye", path)["exit"], 0)
        for rye in rig.ryes:
            rig.expect(f"{rye.name} reads {path.name}", verify_at(rye, path, item), True)
        rig.expect(f"own {path.name}", rig.verdict(path, "--profile", "rye"), (["verified"], 0))
        # The native seal uses the place that Rye leaves free.
        rig.expect(f"seal {path.name}", rig.run("seal", "--inline", path)["exit"], 0)
        rig.expect(f"sealed {path.name}", rig.verdict(path), (["verified"], 0))
        for rye in rig.ryes:
            rig.expect(f"{rye.name} reads sealed {path.name}", verify_at(rye, path, item), True)
        path.write_bytes(path.read_bytes().replace(b"rye:signed:2", b"rye:signed:1", 1))
        rig.expect(f"backdated {path.name}", rig.verdict(path)[1], 1)


def native_alone(rig):
    for path, item in write_all(rig.work("native")):
        rig.expect(f"seal {path.name}", rig.run("seal", "--inline", path)["exit"], 0)
        rig.expect(f"natively {path.name}", rig.verdict(path), (["verified"], 0))
        for rye in rig.ryes:
            rig.expect(f"{rye.name} on a seal of ours in {path.name}", verify_at(rye, path, item), False)


def theirs_to_ours(rig, rye):
    folder = rig.work("theirs", rye.name)
    for path, item in write_all(folder):
        sign_at(rye, path, item)
        if path.name in UNREADABLE_TO_ITSELF:
            rig.expect(f"{rye.name} reads its {path.name}", verify_at(rye, path, item), False)
            continue
        trust = ("--profile", "rye", "--trust", rye.public_key)
        rig.expect(f"{path.name} of {rye.name}", rig.verdict(path, *trust), (["verified"], 0))
        verdicts, code = rig.verdict(path, "--key", rye.public_key)
        rig.expect(f"{path.name} of {rye.name}, auto", code, 0 if verdicts == ["verified"] else 3)
        rig.expect(f"{path.name}, other key", rig.verdict(path, "--key", rig.own_keys), (["unknown_signer"], 3))
        rig.expect(f"{path.name}, nobody's key", rig.verdict(path), (["unknown_signer"], 3))
        # A native seal on a document that Rye signed leaves Rye's signature valid.
        rig.expect(f"seal {path.name} of {rye.name}", rig.run("seal", "--inline", path)["exit"], 0)
        rig.expect(f"{rye.name} reads its {path.name}", verify_at(rye, path, item), True)


def same_key_same_bytes(rig, rye):
    """With Rye's own key the command writes the same bytes as Rye, except for time and padding."""
    name = f"rye-{rye.name}"
    rig.expect("import", rig.run("key", "import", rye.public_key.parent, "--name", name)["exit"], 0)
    ours, theirs = rig.work("same", rye.name, "ours"), rig.work("same", rye.name, "theirs")
    for (path, item), (twin, _) in zip(write_all(theirs), write_all(ours), strict=True):
        # Rye writes JSON again, the command keeps its layout. An empty object shows the difference.
        if path.name in UNREADABLE_TO_ITSELF | {"empty.json"}:
            continue
        sign_at(rye, path, item)
        rig.run("seal", "--profile", "rye", "--key", name, twin)
        rig.expect(f"the bytes of {path.name} as {rye.name}", timeless(twin), timeless(path))


def timeless(path):
    text = path.read_text()
    text = re.sub(r"rye:signed:[0-9-]{10}T[0-9:]{8}Z", "rye:signed:T", text)
    return re.sub(r"([A-Za-z0-9_-]{86})==:", r"\1:", text)


def same_answers(rig, rye):
    """On damaged documents `compat.rye` equals Rye's answer."""
    dice = random.Random(1)
    folder = rig.work("damaged", rye.name)
    seeds = []
    for path, item in write_all(rig.work("seeds", rye.name)):
        sign_at(rye, path, item)
        seeds.append((path, item))
    asked = {}
    for number in range(600):
        path, item = dice.choice(seeds)
        copy = folder / f"{number:03}-{path.name}"
        copy.write_bytes(damage(path.read_bytes(), dice))
        # The command has no option that declares YAML or TOML a config, so Rye gets none either.
        asked[str(copy)] = (copy, "tool" if item == "config" else item)
    answer = rig.run("verify", "--profile", "rye", "--trust", rye.public_key, *asked)
    for result in answer["results"]:
        path, item = asked.pop(result["path"])
        if item is None:
            theirs = rye.ask(op="verify_json", path=str(path))
        else:
            theirs = rye.ask(op="verify_text", path=str(path), item=item)
        if path.name.endswith(".md") and "crash" in (theirs if isinstance(theirs, dict) else {}):
            continue  # Rye knows the kind of the item from its argument, the command does not
        ours = result["compat"].get("rye")
        rig.expect(f"{path.name} ({path.read_bytes()!r})", brief(ours), brief(theirs))
    # For the command, a `.json` file without "{" and without a signature has no known format.
    unknown = {path for path, (file, _) in asked.items() if b"rye:signed:" not in file.read_bytes()}
    rig.expect("every damaged file was looked at", sorted(set(asked) - unknown), [])


def brief(answer):
    """Only the class of an exception, because its text is Python's own."""
    if isinstance(answer, dict) and "crash" in answer:
        return answer["crash"].split(":")[0]
    return answer


def damage(data, dice):
    """Genuine, or with one or two changes."""
    for _ in range(dice.choice([0, 1, 1, 1, 2])):
        at = dice.randrange(len(data) + 1)
        head, tail = data[:at], data[at:]
        match dice.randrange(9):
            case 0:
                data = head + bytes([dice.randrange(256)]) + tail[1:]
            case 1:
                data = head + dice.choice([b"\n", b" ", b"\r", b"---", b"=", b"|a@b", b">"]) + tail
            case 2:
                data = head + tail[1:]
            case 3:
                data = data.replace(b"\n", b"\r\n")
            case 4:
                lines = data.split(b"\n")
                where = dice.randrange(len(lines))
                lines.insert(where, dice.choice(lines))
                data = b"\n".join(lines)
            case 5:
                lines = data.split(b"\n")
                del lines[dice.randrange(len(lines))]
                data = b"\n".join(lines)
            case 6:
                data = dice.choice([b"#!/x\n", b"\xef\xbb\xbf", b"\n", b"{}", b"---\n"]) + data
            case 7:
                data = re.sub(rb"==:", dice.choice([b"=:", b":", b"===:"]), data, count=1)
            case 8:
                header = re.search(rb":[0-9a-f]{16}(?=[^0-9a-f])", data)
                if header:
                    extra = dice.choice([b"|reg@user", b"|reg", b" x", b"0", b"|a@b|c@d"])
                    data = data[: header.end()] + extra + data[header.end() :]
    return data


def main():
    rig = Rig.from_arguments()
    ours_to_theirs(rig)
    native_alone(rig)
    for rye in rig.ryes:
        theirs_to_ours(rig, rye)
        same_key_same_bytes(rig, rye)
    # The report gives the answer of the later Rye.
    same_answers(rig, rig.ryes[-1])
    rig.finish()


if __name__ == "__main__":
    main()
