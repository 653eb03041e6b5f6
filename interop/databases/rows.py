"""The export of a session's rows, by spec/database-sources.md alone: an implementation of its own.

    rows.py LOG...     repeats the export of each log's session, and compares it with the log's last state
"""
import base64
import hashlib
import json
import sqlite3
import struct
import sys

TABLES = {
    "opencode": {
        "session": ("id", ["id"]),
        "message": ("session_id", ["id"]),
        "part": ("session_id", ["id"]),
        "session_message": ("session_id", ["id"]),
        "session_input": ("session_id", ["id"]),
        "session_context_epoch": ("session_id", ["session_id"]),
        "todo": ("session_id", ["position"]),
    },
    "langgraph": {
        "checkpoints": ("thread_id", ["checkpoint_ns", "checkpoint_id"]),
        "writes": ("thread_id", ["checkpoint_ns", "checkpoint_id", "task_id", "idx"]),
    },
    "openai-agents": {
        "agent_sessions": ("session_id", ["session_id"]),
        "agent_messages": ("session_id", ["id"]),
    },
    "goose": {
        "sessions": ("id", ["id"]),
        "messages": ("session_id", ["id"]),
        "usage_ledger": ("session_id", ["id"]),
        "thread_messages": ("session_id", ["id"]),
    },
    "cursor": {
        "cursorDiskKV": (("composerData", "bubbleId", "messageRequestContext"), ["key"]),
        "composerHeaders": ("composerId", ["composerId"]),
    },
    "cursor-agent": {"meta": (None, ["key"]), "blobs": (None, ["id"])},
}
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class Text(bytes):
    """A TEXT, before it is known to be UTF-8."""


def string(text):
    def letter(one):
        return SHORT.get(one) or (f"\\u{ord(one):04x}" if one < " " else one)

    return '"' + "".join(map(letter, text)) + '"'


def spell(value):
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return '{"real":"' + struct.pack(">d", value).hex() + '"}'
    if isinstance(value, Text):
        try:
            return string(value.decode())
        except UnicodeDecodeError:
            return '{"text":"' + base64.b64encode(value).decode() + '"}'
    return '{"blob":"' + base64.b64encode(value).decode() + '"}'


def is_of(key, words, session):
    """Whether a key is one of the words, a colon, and the session, alone or before another colon."""
    if not isinstance(key, Text):
        return False
    parts = key.split(b":")
    return len(parts) > 1 and parts[0].decode() in words and parts[1] == session.encode()


def export(path, kind, session):
    """The lines of all rows of a session, in order."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    database.text_factory = Text
    database.execute("BEGIN")
    lines = []
    for table, (owner, key) in TABLES[kind].items():
        columns = [(row[1].decode(), row[6]) for row in database.execute(f"PRAGMA table_xinfo({table})")]
        columns = sorted((name for name, hidden in columns if hidden == 0), key=str.encode)
        if not columns:
            continue
        listed = ",".join('"' + name.replace('"', '""') + '"' for name in columns)
        if isinstance(owner, str):
            rows = database.execute(f"SELECT {listed} FROM {table} WHERE {owner} COLLATE BINARY = ?", [session])
        else:
            rows = database.execute(f"SELECT {listed} FROM {table}")
        twins = {}
        for row in rows:
            row = dict(zip(columns, row))
            if isinstance(owner, tuple) and not is_of(row["key"], owner, session):
                continue
            name = f'{{"table":"{table}","key":[{",".join(spell(row[column]) for column in key)}]'
            values = ",".join(f"{string(column)}:{spell(row[column])}" for column in columns if row[column] is not None)
            twins.setdefault(name, []).append(values)
        for name, all_values in twins.items():
            for number, values in enumerate(sorted(all_values, key=str.encode)):
                nth = f',"nth":{number}' if number else ""
                lines.append(f'{name}{nth},"row":{{{values}}}}}'.encode())
    return sorted(lines)


def states(log):
    """Each state of a log: its rows, folded, and its last line."""
    rows = {}
    for line in log.splitlines():
        value = json.loads(line)
        if "state" in value:
            yield sorted(rows.values()), value
        elif "table" in value:
            name = json.dumps([value["table"], value["key"], value.get("nth")])
            if value.get("gone"):
                del rows[name]
            else:
                rows[name] = line


def check(place):
    """Compares a log with itself and with its database; returns the number of its states."""
    log = open(place, "rb").read()
    first = json.loads(log.split(b"\n", 1)[0])
    count = 0
    for rows, end in states(log):
        digest = hashlib.sha256(b"".join(row + b"\n" for row in rows)).hexdigest()
        if (end["state"], end["rows"], end["sha256"]) != (count, len(rows), digest):
            raise SystemExit(f"{place}: state {count} is not what it names: {end}, {len(rows)} rows, {digest}")
        count += 1
    if export(first["database"], first["kind"], first["session"]) != rows:
        raise SystemExit(f"{place}: the export of {first['database']} is another one")
    return count


if __name__ == "__main__":
    for place in sys.argv[1:]:
        print(place, check(place))
