"""A PostgreSQL server on 127.0.0.1, from the system's packages; where there is none, tests are skipped."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

JDBC_DRIVER = "org.postgresql:postgresql:42.7.7"


class Postgres:
    """A server that runs."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=postgres"

    def sql(self, text: str) -> list[tuple[str, ...]]:
        """Run statements; the rows of the last one."""
        ask = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run([*ask, "-c", text], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return [tuple(line.split("|")) for line in done.stdout.splitlines()]


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    if not found[-1].is_file() or shutil.which("psql") is None:
        pytest.skip("no PostgreSQL is installed")
    return found[-1].parent


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server with its data in a folder of its own. It refuses to run as root, so there it runs as postgres."""
    programs = _programs()
    user = "postgres" if os.getuid() == 0 else None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="everview-postgres-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    data = folder / "data"

    def run(name: str, *options: str) -> None:
        subprocess.run(
            [programs / name, "-D", data, *options], check=True, capture_output=True, timeout=120, user=user, cwd=folder
        )

    try:
        run("initdb", "--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", settings, "start")
        yield Postgres(port)
    finally:
        if (data / "postmaster.pid").exists():
            run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder)
