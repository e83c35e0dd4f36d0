"""PostgreSQL as an oracle: a server of its own for the tests, asked through `psql`.

    from tests.sql.postgres import Postgres  # and the fixture `postgres`: one server for all tests

    def test_intervals(postgres: Postgres) -> None:
        assert postgres.rows("SELECT interval '1 month' + interval '2 days'") == [("1 mon 2 days",)]

Answers are texts as PostgreSQL prints them, None for NULL. `postgres.run(sql)` is for other statements; each
test gets an empty database (the `public` schema is made anew), UTC, and dates in ISO form. An error of the server is a
`PostgresError` with its text. Where no server can be had (no Debian package `postgresql`, or nobody to run it as), the
tests are skipped with the reason.

No driver is needed: one `psql` process stays open, and COPY ... TO STDOUT writes rows so that they can be read back
exactly. PostgreSQL refuses to run as root, so root starts it as the package's user `postgres`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

_END = "~~~ end of answer ~~~"
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\b": "\b", "\\f": "\f", "\\v": "\v", "\\\\": "\\"}


class PostgresError(Exception):
    """What the server said."""


class Unavailable(Exception):
    """Why there is no server."""


class Postgres:
    """A server in a directory of its own, and a connection to it."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="everview-pg-"))
        self._user = _user()
        self._server: subprocess.Popen[bytes] | None = None
        self._psql: subprocess.Popen[str] | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def run(self, text: str) -> str:
        """Run statements; gives what psql prints. The first error ends them."""
        psql = self._psql
        assert psql is not None and psql.stdin is not None and psql.stdout is not None
        psql.stdin.write(f"{text}\n;\n\\echo '{_END}'\n")
        psql.stdin.flush()
        lines: list[str] = []
        while (line := psql.stdout.readline()).rstrip("\n") != _END:
            if not line:
                raise PostgresError("the connection is gone: " + "".join(lines))
            lines.append(line)
        problem = next((i for i, line in enumerate(lines) if line.startswith(("ERROR:", "FATAL:"))), None)
        if problem is not None:
            raise PostgresError("".join(lines[problem:]).strip())
        return "".join(lines)

    def rows(self, query: str) -> list[tuple[str | None, ...]]:
        """A query's rows as texts, in its order."""
        text = self.run(f"COPY ({query.strip().rstrip(';')}) TO STDOUT")
        return [tuple(map(_field, line.split("\t"))) for line in text.removesuffix("\n").split("\n")] if text else []

    def fresh(self) -> None:
        """Drop everything that tests made."""
        self.run(
            "ROLLBACK; DROP SCHEMA public CASCADE; CREATE SCHEMA public; SET TIME ZONE 'UTC'; "
            "SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; SET search_path = public"
        )

    def close(self) -> None:
        """Stop the server and remove its files."""
        for process in (self._psql, self._server):
            if process is not None:
                process.terminate()
                process.wait(30)
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Postgres:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _start(self) -> None:
        binaries = _binaries()
        data = self._directory / "data"
        if self._user is not None:
            shutil.chown(self._directory, self._user)
        # C: texts sort by their bytes, as they do here
        self._tool(
            binaries / "initdb", "-D", data, "-U", "test", "-A", "trust", "--no-sync", "--locale=C", "--encoding=UTF8"
        )
        options = {"listen_addresses": "", "unix_socket_directories": self._directory, "fsync": "off"}
        words = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        log = (self._directory / "log").open("wb")
        self._server = subprocess.Popen(
            [binaries / "postgres", "-D", data, *words], stdout=log, stderr=log, user=self._user, cwd="/"
        )
        self._tool(binaries / "pg_isready", "-h", self._directory, "-t", "30", tries=100)
        self._psql = subprocess.Popen(
            [binaries / "psql", "-X", "-q", "-At", "-h", self._directory, "-U", "test", "postgres"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
            env={**os.environ, "PGCLIENTENCODING": "UTF8", "PGOPTIONS": "-c client_min_messages=error"},
        )  # fmt: skip
        self.fresh()

    def _tool(self, *words: object, tries: int = 1) -> None:
        for attempt in range(tries):
            done = subprocess.run([*map(str, words)], capture_output=True, text=True, user=self._user, cwd="/")
            if done.returncode == 0:
                return
            if attempt + 1 < tries:
                time.sleep(0.1)
        raise Unavailable(f"{Path(str(words[0])).name} failed: {(done.stderr or done.stdout).strip()}")


def _binaries() -> Path:
    """Where Debian's package has its programs, or where PATH says."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: float(p.parts[4]))
    on_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    if on_path:
        return Path(on_path).resolve().parent
    raise Unavailable("there is no PostgreSQL here: apt-get install postgresql")


def _user() -> str | None:
    """Whom the server runs as; None for ourselves."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise Unavailable("PostgreSQL does not run as root, and there is no user postgres") from None


def _field(text: str) -> str | None:
    """A field of COPY's text format."""
    if text == "\\N":
        return None
    if "\\" not in text:
        return text
    letters = iter(text)
    return "".join(c if c != "\\" else _ESCAPES.get(c + (n := next(letters)), n) for c in letters)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One server for all tests."""
    try:
        server = Postgres()
    except (Unavailable, OSError) as problem:
        pytest.skip(f"no PostgreSQL: {problem}")
    with server:
        yield server


@pytest.fixture
def postgres(postgres_server: Postgres) -> Postgres:
    """The server with an empty database."""
    postgres_server.fresh()
    return postgres_server
