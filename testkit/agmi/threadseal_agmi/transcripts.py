"""Native transcripts: a folder of files, one for each context; a step is an event and its seal.

`threadseal messages` reads them. It gives out only verified messages, and its exit code shows
whether
they are all.
"""

import json
import re

from agmi.adapters.base import Record

from threadseal_agmi import REFUSED, Adapter

TIMESTAMP = re.compile(r'(?<="timestamp":)[0-9.]+')
# Line 1 and its seal.
BEGINNING = 2


class Transcripts(Adapter):
    name = "threadseal-transcripts"

    def _file(self, context):
        return self.store / f"{context}.jsonl"

    def _lines(self, context):
        return self._file(context).read_text().splitlines()

    def grow(self, context, texts):
        there = len(self.steps(context)) if self._file(context).exists() else 0
        entries = []
        for turn, text in enumerate(texts, there + 1):
            entries += ["cognition_in " + json.dumps({"text": text, "role": "user"}), str(turn)]
        lines = "".join(entry + "\n" for entry in entries)
        self.program("RECORD", self.home, self._file(context), "--open", text=lines)

    def steps(self, context):
        lines = self._lines(context)[BEGINNING:]
        return [{"event": event, "seal": seal} for event, seal in zip(lines[::2], lines[1::2], strict=True)]

    def put_steps(self, context, steps):
        lines = self._lines(context)[:BEGINNING]
        for step in steps:
            lines += [step["event"], step["seal"]]
        self._file(context).write_text("".join(line + "\n" for line in lines))

    def read(self):
        done = self.command("messages", self._file(self.context), codes={0} | REFUSED)
        if done.returncode != 0:
            return False, [], done.stderr.strip()
        return True, [message["content"] for message in json.loads(done.stdout)], ""

    def text_of(self, fields):
        return json.loads(fields["event"])["payload"]["text"]

    def mutate_payload(self, record):
        record.fields["event"] = record.fields["event"].replace("seed", "send")
        return record

    def forge_record(self, template):
        # Later by the length of a turn; the seal is the last genuine one.
        forged = self._moved(Record(template.seq + 1, dict(template.fields)), 1)
        return self.mutate_payload(forged)

    def _moved(self, record, seconds):
        def later(found):
            return f"{float(found.group()) + seconds:.6f}"

        record.fields["event"] = TIMESTAMP.sub(later, record.fields["event"], count=1)
        return record

    def read_meta(self, seq):
        event = json.loads(self.steps(self.context)[seq]["event"])
        del event["payload"]
        return event

    def write_meta(self, seq, meta):
        # An unknown member would be refused for its name; a known one with another value is the
        # harder case.
        record = self.read_all_raw()[seq]
        self.write_raw(self._moved(record, -3600))
