"""Inspect logs, as JSON and as archives."""

import io
import json
import shutil
import struct
import subprocess
import zipfile

from .values import parse, texts

FORMAT = "inspect"
FILES = ("inspect-eval-json/*.json", "inspect-eval-zip/*.eval", "generated-here/*.eval")
PLACE = (
    "uuid span_id timestamp completed working_start working_time working_end pending parent_id event"
).split()
SCHEMES = ("attachment://", "tc://")
SILENT = ("state", "store", "sample_init", "score", "span_begin", "span_end", "step")


def members(source):
    """Files of an archive in order. Python 3.11 cannot read Zstandard, but the program `zstd` can.
    """
    archive = zipfile.ZipFile(io.BytesIO(source))
    for entry in archive.infolist():
        if entry.compress_type != 93:
            yield entry.filename, archive.read(entry)
            continue
        if not shutil.which("zstd"):
            raise RuntimeError("no program zstd")
        start = entry.header_offset
        name, extra = struct.unpack("<HH", source[start + 26 : start + 30])
        start += 30 + name + extra
        packed = source[start : start + entry.compress_size]
        done = subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True)
        yield entry.filename, done.stdout


def records(source):
    if source.startswith(b"PK"):
        files = list(members(source))
        header = dict(files)["header.json"]
        yield 0, parse(header)
        samples = [parse(text) for name, text in files if name.startswith("samples/")]
    else:
        whole = parse(source)
        yield 0, {name: value for name, value in whole.items() if name != "samples"}
        samples = whole.get("samples") or []
    for number, sample in enumerate(samples, 1):
        yield number, resolved(sample)


def resolved(sample):
    """The sample with its references replaced by attachments, and the attachments without a
    reference.
    """
    old = sample.get("transcript") or {}
    table = {**(sample.get("attachments") or {}), **(old.get("content") or {})}
    used = set()

    def resolve(value):
        if isinstance(value, dict):
            return {name: resolve(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [resolve(inner) for inner in value]
        for scheme in SCHEMES:
            if isinstance(value, str) and value.startswith(scheme):
                name = value[len(scheme) :]
                used.add(name)
                return table.get(name, value)
        return value

    kept = {name: resolve(value) for name, value in sample.items() if name != "attachments"}
    if old:
        kept["transcript"] = {"events": kept["transcript"].get("events", [])}
    kept["attachments"] = {name: text for name, text in table.items() if name not in used}
    return kept


def is_parsed(text, _strings):
    return text in ("exec", "read_file", "write_file")


def blocks(said, place):
    if isinstance(said, str):
        if said:
            yield place, "text", said
        return
    for index, block in enumerate(said or ()):
        if block.get("type") == "text":
            yield f"{place}/{index}/text", "text", block["text"]
        elif block.get("type") == "reasoning":
            yield f"{place}/{index}/reasoning", "text", block["reasoning"]
        else:
            yield from texts(block, f"{place}/{index}")


def message(record, place):
    if record.get("role") == "tool":
        yield f"{place}/content", "output", record.get("content")
        return
    yield from blocks(record.get("content"), f"{place}/content")
    for index, call in enumerate(record.get("tool_calls") or ()):
        yield f"{place}/tool_calls/{index}/arguments", "input", call.get("arguments")


def event(record, place):
    kind = record.get("event")
    if kind == "model":
        for index, said in enumerate(record.get("input") or ()):
            yield from message(said, f"{place}/input/{index}")
        for index, choice in enumerate(record["output"].get("choices") or ()):
            yield from message(choice["message"], f"{place}/output/choices/{index}/message")
    elif kind == "tool":
        yield f"{place}/arguments", "input", record.get("arguments")
        yield f"{place}/result", "output", record.get("result")
        for index, inner in enumerate(record.get("events") or ()):
            yield from event(inner, f"{place}/events/{index}")
    elif kind == "sandbox":
        answer = ("result", "output")
        known = (*PLACE, "action", *answer)
        nothing = (None, "", [], {})
        asked = {n: v for n, v in record.items() if n not in known and v not in nothing}
        yield place, "input", asked
        yield place, "output", {n: record[n] for n in answer if record.get(n) is not None}
    elif kind not in SILENT:
        yield from texts(record, place)


def content(record):
    if "messages" not in record:
        return
    for index, said in enumerate(record["messages"]):
        yield from message(said, f"/messages/{index}")
    for index, one in enumerate(record.get("events") or ()):
        yield from event(one, f"/events/{index}")
    for index, one in enumerate((record.get("transcript") or {}).get("events") or ()):
        yield from event(one, f"/transcript/events/{index}")
    pools = {"/message_pool": record.get("message_pool")}
    pools["/events_data/messages"] = (record.get("events_data") or {}).get("messages")
    for place, pool in pools.items():
        for index, said in enumerate(pool or ()):
            yield from message(said, f"{place}/{index}")
    for index, choice in enumerate((record.get("output") or {}).get("choices") or ()):
        yield from message(choice["message"], f"/output/choices/{index}/message")
    if isinstance(record.get("input"), str):
        yield "/input", "text", record["input"]
    else:
        for index, said in enumerate(record.get("input") or ()):
            yield from message(said, f"/input/{index}")
    for name, text in record["attachments"].items():
        yield f"/attachments/{name}", "text", text
