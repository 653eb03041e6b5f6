"""Signed ledgers in an SQLite file, one run for each context; a step is a record.

`threadseal ledger export --verified` reads them. It gives out only runs that verify.
"""

import hashlib
import json
import sqlite3

from agmi.adapters.base import Record

from threadseal_agmi import REFUSED, Adapter

# The number of the first step: 1 is the first record of the ledger.
FIRST = 2


def spelled(value):
    """JSON as the ledger spells it in digested text (spec/canon.md §5)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def chained(step):
    """The digest of a record, which needs no key."""
    covered = {name: value for name, value in step.items() if name not in ("record_hash", "signature")}
    return hashlib.sha256(spelled(covered).encode()).hexdigest()


class Ledgers(Adapter):
    name = "threadseal-ledger-sqlite"

    @property
    def _file(self):
        return self.store / "runs.db"

    def _connect(self):
        connection = sqlite3.connect(self._file, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        return connection

    def grow(self, context, texts):
        steps = [{"node_id": "remember", "status": "completed", "result": {"text": text}} for text in texts]
        effect = {"type": "answer", "payload": {}}
        lines = "".join(json.dumps({**step, "effect": effect}) + "\n" for step in steps)
        self.command("ledger", "append", f"sqlite:{self._file}", "--run", context, "--sign", text=lines)

    def steps(self, context):
        connection = sqlite3.connect(self._file)
        rows = connection.execute(
            "SELECT record_json FROM ledger WHERE run_id = ? AND seq >= ? ORDER BY seq", (context, FIRST)
        ).fetchall()
        connection.close()
        return [{"record": row[0]} for row in rows]

    def put_steps(self, context, steps):
        connection = self._connect()
        have = connection.execute("SELECT max(seq) FROM ledger WHERE run_id = ?", (context,)).fetchone()[0]
        # The trigger against rewriting runs when a row is updated, and not when it is replaced.
        for seq, step in enumerate(steps, FIRST):
            connection.execute(
                "INSERT OR REPLACE INTO ledger (run_id, seq, record_json, idempotency_key, step_status) VALUES (?, ?, ?, ?, ?)",
                (context, seq, step["record"], None, "completed"),
            )
        end = FIRST - 1 + len(steps)
        if end < have:
            connection.execute("DELETE FROM ledger WHERE run_id = ? AND seq > ?", (context, end))
        # The store's own notes on the end of the run agree with the remaining rows.
        last = json.loads(steps[-1]["record"])["record_hash"]
        connection.execute("UPDATE ledger_heads SET last_seq = ? WHERE run_id = ?", (end, context))
        connection.execute("UPDATE threadseal_heads SET count = ?, hash = ? WHERE run_id = ?", (end, last, context))
        connection.execute("COMMIT")
        connection.close()

    def read(self):
        export = ["ledger", "export", "--verified", f"sqlite:{self._file}", "--run", self.context]
        done = self.command(*export, codes={0} | REFUSED)
        if done.returncode != 0:
            if done.stdout:
                raise RuntimeError(f"refused and yet given out: {done.stdout}")
            return False, [], done.stderr.strip()
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return True, [record["result"]["text"] for record in records[FIRST - 1 :]], ""

    def text_of(self, fields):
        return json.loads(fields["record"])["result"]["text"]

    def _changed(self, record, change):
        """Edits the record with `change`, and gives it the digest that fits."""
        step = json.loads(record.fields["record"])
        if chained(step) != step["record_hash"]:
            raise RuntimeError("a genuine record has another digest")
        change(step)
        step["record_hash"] = chained(step)
        record.fields["record"] = json.dumps(step, separators=(",", ":"), ensure_ascii=False)
        return record

    def mutate_payload(self, record):
        def change(step):
            step["result"]["text"] += ", or not"

        return self._changed(record, change)

    def forge_record(self, template):
        def change(step):
            step["result"]["text"] = "forged"
            step["prev_hash"] = step["record_hash"]

        return self._changed(Record(template.seq + 1, dict(template.fields)), change)

    def read_meta(self, seq):
        step = json.loads(self.steps(self.context)[seq]["record"])
        del step["result"]
        return step

    def write_meta(self, seq, meta):
        # An unknown member would be refused for its name; a known one with another value is the
        # harder case.
        def change(step):
            step["node_id"] = "instructed"

        self.write_raw(self._changed(self.read_all_raw()[seq], change))


class Unverified(Ledgers):
    """The control: a reader of the rows without verification accepts every edit, so each edit leaves
    a readable store.
    """

    name = "threadseal-ledger-sqlite, read without verification"

    def read(self):
        records = [json.loads(step["record"]) for step in self.steps(self.context)]
        return True, [record["result"]["text"] for record in records], ""
