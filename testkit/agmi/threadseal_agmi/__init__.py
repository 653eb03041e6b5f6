"""Adapters of agent-memory-integrity for ThreadSeal's stores: their common part.

The *store* is a folder; the edits change, copy and roll back its content. The *home* holds keys,
trust, known heads and the log of the host. It is outside the store, and no edit reaches it. The
environment names the programs: THREADSEAL, and RECORD, the example of threadseal-store.
"""

import os
import pathlib
import subprocess
import tempfile

from agmi.adapters.base import MemoryAdapter, Record

# Exit codes that are verdicts: evidence against a record, and not confirmed. Any other failure is
# no answer.
REFUSED = {1, 3}


class Adapter(MemoryAdapter):
    """A store in a folder and a home next to it.

    A record of the suite is one step of a context. The beginning of a context is part of the store
    and
    no step: line 1 of a transcript with its seal, or the first record of a ledger.
    """

    supports_replay = True
    supports_metadata = True
    supports_snapshot = True
    detection_point = "read"
    context, other = "first", "second"

    def __init__(self):
        self._temporary = None

    def setup(self):
        self._temporary = tempfile.TemporaryDirectory(prefix="threadseal-agmi-")
        folder = pathlib.Path(self._temporary.name)
        self.store, self.home = folder / "store", folder / "home"
        self.store.mkdir()
        self.command("init", "-q")

    def teardown(self):
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def program(self, name, *arguments, text="", codes=frozenset({0})):
        """Runs the program that the environment names `name`; raises unless its exit code is one of
        `codes`.
        """
        done = subprocess.run(
            [os.environ[name], *map(str, arguments)],
            env={"THREADSEAL_HOME": str(self.home), "PATH": os.environ["PATH"]},
            input=text,
            capture_output=True,
            text=True,
        )
        if done.returncode not in codes:
            raise RuntimeError(f"{name} {arguments}: exit {done.returncode}: {done.stderr}")
        return done

    def command(self, *arguments, **more):
        return self.program("THREADSEAL", *arguments, **more)

    # Methods that each adapter defines for its store.

    def grow(self, context, texts):
        """Writes these texts as the next steps of a context, with the tool's own means."""
        raise NotImplementedError

    def steps(self, context):
        """The raw steps of a context, each a dict of texts."""
        raise NotImplementedError

    def put_steps(self, context, steps):
        """Replaces the raw steps of a context.

        Corrects all notes of the store about them that need no key.
        """
        raise NotImplementedError

    def read(self):
        """Reads the first context as people and programs do: (whether it was given out, the texts,
        the output).
        """
        raise NotImplementedError

    def text_of(self, fields):
        """The text of a raw step."""
        raise NotImplementedError

    # Methods that the suite requires.

    def seed(self, n):
        self.grow(self.context, [f"seed {number}" for number in range(n)])

    def seed_other(self, n):
        self.grow(self.other, [f"of another {number}" for number in range(n)])

    def append_genuine(self):
        self.grow(self.context, ["late"])

    def _records(self, context):
        return [Record(number, {"context": context, **step}) for number, step in enumerate(self.steps(context))]

    def read_all_raw(self):
        return self._records(self.context)

    def read_other_raw(self):
        return self._records(self.other)

    def write_raw(self, record):
        steps = self.steps(self.context)
        step = {name: text for name, text in record.fields.items() if name != "context"}
        # At the end the step is a new one.
        steps[record.seq : record.seq + 1] = [step]
        self.put_steps(self.context, steps)

    def delete_raw(self, seq):
        steps = self.steps(self.context)
        del steps[seq]
        self.put_steps(self.context, steps)

    def replay_onto(self, victim_seq, donor):
        self.write_raw(Record(victim_seq, dict(donor.fields)))

    def identity_of(self, record):
        return f"{record.fields['context']} {record.seq}"

    def owner_of(self, record):
        return record.fields["context"]

    def payload_of(self, record):
        return self.text_of(record.fields)

    def snapshot_store(self):
        return self._copy_store(self.store)

    def restore_store(self, token):
        self._restore_store(token, self.store)

    def reload(self):
        """Every command opens the store again."""

    def verify(self):
        given, texts, said = self.read()
        self.verify_detail = None if given else said
        if given and texts != [self.text_of(step) for step in self.steps(self.context)]:
            raise RuntimeError(f"what was read is not what is stored: {texts}")
        return given
