"""A real PostgreSQL server on a free port of this machine, with its data in a temporary folder."""

from __future__ import annotations

import ctypes
import getpass
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.ports import free_port
from tests.waiting import until

USER = "stepwatch"
_PR_SET_PDEATHSIG = 1
_DEBIAN = Path("/usr/lib/postgresql")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    # No test pulls the plug of this machine.
    "fsync": "off",
}


def _program(name: str) -> str | None:
    paths = sorted(_DEBIAN.glob(f"*/bin/{name}"))
    return str(paths[-1]) if paths else shutil.which(name)


def _server_user() -> str:
    """The user that the server runs as."""
    if os.geteuid() != 0:
        return getpass.getuser()
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _end_with_tests() -> None:
    # If the tests are killed -9, the kernel lets the server end at once.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


class PostgresqlServer:
    """Starts, stops and kills; the port and the data stay the same across restarts."""

    def __init__(self) -> None:
        programs = [_program(name) for name in ("initdb", "postgres")]
        if None in programs:
            pytest.skip("PostgreSQL is not installed; tests/install-tools installs it")
        self._initdb, self._postgres = map(str, programs)
        self.port = free_port()
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="stepwatch-postgresql-"))
        # The server refuses to run as root.
        self._owner = _server_user()
        if os.geteuid() == 0:
            owner = pwd.getpwnam(self._owner)
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
        words = f"{self._initdb} --no-sync --auth=trust --locale=C --encoding=UTF8"
        self._run([*words.split(), f"--username={USER}", "-D", str(self._data)]).wait()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, words: list[str]) -> subprocess.Popen[bytes]:
        root = os.geteuid() == 0
        owner = pwd.getpwnam(self._owner)
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(
                words,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                user=owner.pw_uid if root else None,
                group=owner.pw_gid if root else None,
                extra_groups=[] if root else None,
                preexec_fn=_end_with_tests,
            )

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = [word for item in _SETTINGS.items() for word in ("-c", "=".join(item))]
        port = ["-p", str(self.port)]
        self._process = self._run([self._postgres, "-D", str(self._data), *port, *settings])
        until("PostgreSQL to answer", self._answers)

    def stop(self) -> None:
        """End it, and with it every connection."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
        self._process = None

    def kill(self) -> None:
        """Kill it with all its processes, which write nothing more; `start` recovers."""
        assert self._process is not None
        group = [self._process.pid, *_children(self._process.pid)]
        for pid in group:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(60)
        self._process = None

    @contextmanager
    def down(self) -> Iterator[None]:
        """While this is held the server is stopped."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def remove(self) -> None:
        """Stop it and remove its data."""
        self.stop()
        shutil.rmtree(self._folder)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run one statement on its own."""
        engine = sa.create_engine(self.url(database), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    def url(self, database: str) -> str:
        """SQLAlchemy URL of a database; the password is not needed."""
        return f"postgresql+psycopg://{USER}:not-shown@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """SQLAlchemy URL of a database that is empty."""
        name = f"stepwatch_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        return self.url(name)

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except sa.exc.OperationalError:
            return False
        return True
