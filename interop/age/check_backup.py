"""Opens backups of the command with pyrage, and has the command restore files of pyrage."""

import argparse
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

import pyrage

PASSPHRASE = "correct horse"
DESCRIPTION = "threadseal-backup.json"


class Host:
    """A home and a folder with one sealed record."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.home = folder / "home"
        (folder / "pass").write_text(PASSPHRASE + "\n")
        self.run("init", "-q")
        (folder / "record.json").write_text('{"a":1}\n')
        self.run("seal", "-q", "record.json")

    def run(self, *words):
        environment = {"PATH": os.environ["PATH"], "THREADSEAL_HOME": str(self.home)}
        done = subprocess.run(
            [self.program, *words], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def file(self, name):
        return (self.folder / name).read_bytes()


def check_archive(host, archive):
    """What another program sees in the archive is what the home has."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
        for member in opened:
            assert member.isreg() and member.mode == 0o600, member
            files[member.name] = opened.extractfile(member).read()
    assert next(iter(files)) == DESCRIPTION
    for name in ("keys/self.native.key", "trust.toml", "log/current"):
        assert files[name] == (host.home / name).read_bytes(), name
    assert not any(name.endswith("lock") or name.startswith("epochs/") for name in files)
    return len(files)


def restore(host, name, *options):
    """Loses the home, restores it, and seals and verifies with it."""
    shutil.rmtree(host.home)
    host.run("home", "restore", name, *options)
    host.run("verify", "-q", "record.json")
    host.run("seal", "-q", "record.json")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threadseal", required=True)
    program = str(pathlib.Path(parser.parse_args().threadseal).resolve())
    with tempfile.TemporaryDirectory() as folder:
        host = Host(program, pathlib.Path(folder))
        host.run("home", "backup", "-o", "ours.age", "--passphrase-file", "pass")
        archive = pyrage.passphrase.decrypt(host.file("ours.age"), PASSPHRASE)
        count = check_archive(host, archive)
        (host.folder / "theirs.age").write_bytes(pyrage.passphrase.encrypt(archive, PASSPHRASE))
        restore(host, "theirs.age", "--passphrase-file", "pass")

        identity = pyrage.x25519.Identity.generate()
        recipient = identity.to_public()
        host.run("home", "backup", "-o", "ours-2.age", "--recipient", str(recipient))
        archive = pyrage.decrypt(host.file("ours-2.age"), [identity])
        check_archive(host, archive)
        (host.folder / "theirs-2.age").write_bytes(pyrage.encrypt(archive, [recipient]))
        key = host.folder / "age.txt"
        key.write_text(f"# made by pyrage\n{identity}\n")
        key.chmod(0o600)
        restore(host, "theirs-2.age", "--identity", "age.txt")
    print(f"4 age files opened by the other program, {count} files in each")


if __name__ == "__main__":
    main()
