"""Changes of files for `differ`: of bytes, lines, members of JSON, items of CBOR."""

import hashlib
import json
import random
import re

ODD_VALUES = [
    b"null", b"true", b"false", b"0", b"-0", b"1", b"1.0", b"1e2", b"100", b"1E+2", b"0.1", b"1e400", b"01", b"-1",
    b"9007199254740991", b"9007199254740993", b"18446744073709551615", b"18446744073709551616", b"NaN", b"Infinity",
    b'""', b'"a"', b'"\\u0061"', b'"\\u001F"', b'"\\u001f"', b'"\\ud800"', b'"\\/"', b'"\xc3\xa9"', b'"\\n"', b"[]", b"{}",
    b'{"a":1,"a":2}', b"[[1]]", b'{"2":0,"10":0}', b"7.0E-1", b"1700000000000000001",
]
INSERTED = [
    b" ", b"\n", b"\r", b"\t", b"\x00", b"\xff", b",", b'"', b"{}", b"\\u0061", b"0", b"\xef\xbb\xbf", b"\xc2\xa0", b"]",
    b"\x0b", b"\x0c", b"\x1c", b"\x7f", b"\xc2\x85", b"\xe2\x80\xa8",
]
# A text, a number or a word of JSON.
SCALAR = re.compile(rb'"(?:[^"\\\\]|\\\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|NaN|Infinity')


def change(chance: random.Random, data: bytes, others: list[bytes], kind: str) -> bytes:
    """One change that suits files of this kind."""
    if kind == "scroll" and data[:1] >= b"\x80":
        return chance.choice(OF_CBOR)(chance, data, others)
    return chance.choice(OF_JSON if kind in WITH_JSON else OF_LINES)(chance, data, others)


WITH_JSON = ("scroll", "ledger", "bundle", "document", "rye")


def mended(chance: random.Random, data: bytes, kind: str, role: str) -> bytes:
    """Now and then with the hashes that fit, so that rules behind them are met, too."""
    if chance.random() < 0.5:
        return data
    if kind == "ledger" and role == "ledger":
        return rechained(data)
    if kind == "bundle":
        return rechained_bundle(data)
    if kind == "scroll" and data.lstrip()[:1] in (b"{", b"["):
        return rehashed(data)
    return data


def rechained(data: bytes) -> bytes:
    """The lines of a ledger, each with the link and the hash that it needs (spec/ledger.md §3)."""
    out, prev = [], None
    for line in data.splitlines(keepends=True):
        try:
            record = json.loads(line)
            prev = chained(record, prev)
            out.append(json.dumps(record, separators=(",", ":")).encode() + line[len(line.rstrip()) :])
        except (ValueError, TypeError, AttributeError):
            out.append(line)
    return b"".join(out)


def chained(record: dict, prev: str | None) -> str:
    """Gives a record its link and its hash, which is returned."""
    record["prev_hash"] = prev
    covered = {name: value for name, value in record.items() if name not in ("record_hash", "signature")}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    record["record_hash"] = hashlib.sha256(text.encode()).hexdigest()
    return record["record_hash"]


def rechained_bundle(data: bytes) -> bytes:
    """A bundle whose records have the links and hashes that they need, and whose cursors count on."""
    try:
        bundle = json.loads(data)
        for ledger in bundle["ledgers"].values():
            prev = None
            for cursor, item in enumerate(ledger["items"], ledger["cursor_start"] or 1):
                item["cursor"] = cursor
                prev = chained(item["record"], prev)
        return json.dumps(bundle, separators=(",", ":")).encode()
    except (ValueError, TypeError, AttributeError, KeyError):
        return data


def rehashed(data: bytes) -> bytes:
    """A scroll in JSON, each turn with the link and the hash that it needs (spec/scroll.md §4)."""
    try:
        turns = [json.loads(line) for line in data.splitlines() if line.strip()] if data.lstrip()[:1] == b"{" else json.loads(data)
        prev = None
        for turn in turns:
            if prev is not None:
                turn["prev_hash"] = prev
            covered = {name: value for name, value in turn.items() if name not in ("hash", "sig")}
            text = json.dumps(as_doubles(covered), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            prev = turn["hash"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        if data.lstrip()[:1] == b"{":
            return b"".join(json.dumps(turn).encode() + b"\n" for turn in turns)
        return json.dumps(turns).encode()
    except (ValueError, TypeError, AttributeError, OverflowError):
        return data


def as_doubles(value):
    """Numbers as canonical text has most of them."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {name: as_doubles(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_doubles(one) for one in value]
    double = float(value)
    return int(double) if double.is_integer() and abs(double) < 1e21 else double


# ------------------------------------------------------------------------------------------ bytes


def flip(chance, data, _others):
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def digit(chance, data, _others):
    """Another digit or letter in the place of one."""
    places = [at for at, byte in enumerate(data) if chr(byte).isalnum()]
    if not places:
        return data
    at = chance.choice(places)
    return data[:at] + chance.choice(b"0123456789abcdefABCXYZ").to_bytes() + data[at + 1 :]


def delete(chance, data, _others):
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at + chance.randrange(1, 9) :]


def insert(chance, data, _others):
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(INSERTED) + data[at:]


def cut(chance, data, _others):
    return data[: chance.randrange(len(data) + 1)]


# ------------------------------------------------------------------------------------------ parts


def moved(chance, parts: list[bytes], others: list[list[bytes]]) -> list[bytes]:
    """One part is doubled, moved, gone, or one of another file."""
    if not parts:
        return parts
    parts = list(parts)
    part = parts[at := chance.randrange(len(parts))]
    way = chance.randrange(4)
    if way == 3:
        other = chance.choice(others) if others else []
        parts[at] = chance.choice(other) if other else part
        return parts
    if way != 0:
        del parts[at]
    if way != 1:
        parts.insert(chance.randrange(len(parts) + 1), part)
    return parts


def lines(chance, data, others):
    return b"".join(moved(chance, data.splitlines(keepends=True), [other.splitlines(keepends=True) for other in others]))


def members(chance, data, others):
    """The same with what commas divide, in one of the objects and arrays."""
    found = groups(data)
    if not found:
        return data
    of_others = [[one for _, _, parts in groups(other) for one in parts] for other in others[:2]]
    begin, end, parts = chance.choice(found)
    return data[:begin] + b",".join(moved(chance, parts, of_others)) + data[end:]


def groups(data: bytes) -> list[tuple[int, int, list[bytes]]]:
    """The inside of each object and array, and its parts."""
    found, open_, quoted, at = [], [], False, 0
    while at < len(data):
        byte = data[at : at + 1]
        if quoted:
            at += byte == b"\\"
            quoted = byte != b'"'
        elif byte == b'"':
            quoted = True
        elif byte in b"[{":
            open_.append([at + 1])
        elif open_ and byte == b",":
            open_[-1].append(at + 1)
        elif open_ and byte in b"]}":
            starts = open_.pop()
            ends = [start - 1 for start in starts[1:]] + [at]
            found.append((starts[0], at, [data[a:b] for a, b in zip(starts, ends)]))
        at += 1
    return found


def value(chance, data, others):
    """Another value, or name, in the place of one."""
    places = list(SCALAR.finditer(data))
    if not places:
        return data
    place = chance.choice(places)
    new = chance.choice(ODD_VALUES)
    if chance.random() < 0.4:
        found = SCALAR.findall(chance.choice(others or [data]))
        new = chance.choice(found) if found else new
    return data[: place.start()] + new + data[place.end() :]


def items(chance, data, others):
    """A turn of a sequence is doubled, moved, gone, or one of another file."""
    return b"".join(moved(chance, turns_of(data), [turns_of(other) for other in others]))


def turns_of(data: bytes) -> list[bytes]:
    """The items of a CBOR sequence, as far as they can be cut."""
    found, at = [], 0
    while at < len(data):
        end = item_end(data, at)
        if end is None:
            return [*found, data[at:]]
        found.append(data[at:end])
        at = end
    return found


def item_end(data: bytes, at: int) -> int | None:
    left = 1
    while left:
        if at >= len(data):
            return None
        major, info = data[at] >> 5, data[at] & 31
        width = {24: 1, 25: 2, 26: 4, 27: 8}.get(info, 0)
        if info > 27:
            return None
        number = int.from_bytes(data[at + 1 : at + 1 + width]) if width else info
        at += 1 + width
        left += {4: number, 5: 2 * number, 6: 1}.get(major, 0) - 1
        at += number if major in (2, 3) else 0
    return at if at <= len(data) else None


def head(chance, data, _others):
    """Another first byte of an item, of one of the first turns or inside."""
    if not data:
        return data
    at = chance.randrange(min(len(data), 400))
    new = chance.choice([0x00, 0x17, 0x18, 0x1B, 0x20, 0x5F, 0x60, 0x78, 0x7B, 0x80, 0x9B, 0xA0, 0xBB, 0xBF, 0xC0, 0xF5, 0xF6, 0xF9, 0xFB, 0xFF])
    return data[:at] + bytes([new]) + data[at + 1 :]


OF_LINES = [flip, flip, digit, digit, delete, insert, cut, lines, lines]
OF_JSON = [flip, flip, digit, digit, delete, insert, cut, lines, members, members, value, value]
OF_CBOR = [flip, flip, digit, delete, insert, cut, items, items, head]
