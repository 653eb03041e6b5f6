# pyright: standard
"""Each database in turn, with a saver over it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from databases import Database, Memory, Postgres, Sqlite
from threadseal import Identity
from threadseal.langgraph import SealedSaver


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A throw-away cluster of PostgreSQL on a socket of its own; the address of its server."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        pytest.skip("no PostgreSQL is installed")
    folder = tmp_path_factory.mktemp("cluster")
    as_user: list[str] = []
    if Path("/proc/self").owner() == "root":
        # The server refuses to run as root.
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(folder, "postgres", "postgres")
        for above in folder.parents:
            if above.owner() == "root" and "pytest" in above.name:
                above.chmod(0o755)
    data, bin = folder / "data", programs[-1].parent

    def run(*words: str | Path) -> None:
        done = subprocess.run([*as_user, *map(str, words)], capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr

    run(bin / "initdb", "-D", data, "--auth=trust", "-U", "tests", "--no-sync")
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    run(bin / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    yield f"host={folder} user=tests dbname=postgres"
    run(bin / "pg_ctl", "-D", data, "-m", "immediate", "stop")


@pytest.fixture
def fresh(cluster: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a new database of the cluster."""
    name = f"t{abs(hash(request.node.nodeid))}"
    with psycopg.connect(cluster, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
    yield cluster.replace("dbname=postgres", f"dbname={name}")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Each database in turn."""
    if request.param == "memory":
        yield Memory()
    elif request.param == "sqlite":
        made = Sqlite(tmp_path / "checkpoints.db")
        yield made
        made.connection.close()
    else:
        of_server = Postgres(request.getfixturevalue("fresh"))
        yield of_server
        of_server.connection.close()


@pytest.fixture
def seals(tmp_path: Path) -> Path:
    """The folder with the records."""
    return tmp_path / "seals"


@pytest.fixture
def saver(database: Database, seals: Path, identity: Identity) -> Iterator[SealedSaver]:
    """A saver that seals, over the database."""
    with SealedSaver(database.saver, seals, identity=identity) as made:
        yield made
