"""PostgreSQL's clients beside PostgreSQL: the same client, the same statements, one server after the other.

    lookups_1, lookups_16   prepared look-ups by key of 100,000 rows, per second: one connection, sixteen of them
    copy_in                 COPY FROM STDIN of 1,000,000 rows of an int, a text and a float, rows per second
    rows_out                the same rows read by psycopg in binary form, rows per second
    inserts                 single prepared INSERTs, each a transaction, per second
    arrow_out               the same rows as Arrow over HTTP; its ratio is to PostgreSQL's `rows_out`
    rows_after_delete, arrow_after_delete   both again, of a table whose rows were deleted and copied again: their
                            history is still there (1,000 transactions), as PostgreSQL's dead rows are
    kb_per_connection       what the server holds for each of 200 idle connections

Clients are processes of their own; both servers are asked over TCP, PostgreSQL with fsync=off, because Everview's
session is in memory here. Without PostgreSQL (Debian: `postgresql`) only Everview is measured. Each figure is the best
of three; `ratio` is Everview's rate as a part of PostgreSQL's.

`cpu_us` is the CPU time of the server's processes for each of these, the least of three; `cpu_ratio` is PostgreSQL's as
a multiple of Everview's. On a busy machine it says more than rates do.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import common
import psycopg
import pyarrow as pa

ROUNDS = 3
KEYS = 100_000
WIDE = "CREATE TABLE wide (a bigint, b text, c double precision)"
TABLES = (
    "CREATE TABLE kv (k bigint PRIMARY KEY, v text)",
    WIDE,
    "CREATE TABLE single (a bigint PRIMARY KEY, b text)",
)


def run(options: Any) -> dict[str, Any]:
    """All of it; tiny with `--quick`."""
    found: dict[str, Any] = {}
    for name, server in (("everview", _everview), ("postgresql", _postgresql)):
        with server() as (dsn, web, process):
            if dsn:
                found[name], found[f"{name}_cpu_us"] = _measured(dsn, web, process, options.quick)
            if web:
                found["kb_per_connection"] = _idle(dsn, process, 10 if options.quick else 200)
    if "postgresql" in found:
        for kind, form in (("", "ratio"), ("_cpu_us", "cpu_ratio")):
            ours, theirs = found[f"everview{kind}"], dict(found[f"postgresql{kind}"])
            theirs["arrow_out"], theirs["arrow_after_delete"] = theirs["rows_out"], theirs["rows_after_delete"]
            pairs = {k: (theirs[k], v) if kind else (v, theirs[k]) for k, v in ours.items()}
            found[form] = {k: round(a / b, 3) for k, (a, b) in pairs.items() if b}  # a quick run may take no tick
    return found


Done = tuple[float, float]
"""How many there were, and the seconds that they took."""


def _measured(dsn: str, web: str, process: int, quick: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Rates, and CPU time of the server for each."""
    rows, seconds = (2_000, 0.3) if quick else (1_000_000, 3.0)
    rounds = 1 if quick else ROUNDS
    with psycopg.connect(dsn, autocommit=True) as db:
        for statement in TABLES:
            db.execute(statement)
        with db.cursor().copy("COPY kv FROM STDIN") as copy:
            copy.write("".join(f"{i}\tvalue {i}\n" for i in range(KEYS if not quick else 1000)))
    keys = 1000 if quick else KEYS
    ways: list[tuple[str, Callable[[int], Done]]] = [
        ("lookups_1", lambda _: _together(dsn, 1, seconds, keys)),
        ("lookups_16", lambda _: _together(dsn, 16, seconds, keys)),
        ("copy_in", lambda _: _copied(dsn, rows)),
        ("rows_out", lambda _: _read(dsn)),
        ("inserts", lambda number: _inserted(dsn, seconds, number)),
        *([("arrow_out", lambda _: _read_arrow(web))] if web else []),
        ("copy_again", lambda _: _copied(dsn, rows, again=True)),
        ("rows_after_delete", lambda _: _read(dsn)),
        *([("arrow_after_delete", lambda _: _read_arrow(web))] if web else []),
    ]
    best: dict[str, float] = {}
    least: dict[str, float] = {}
    for number in range(rounds):
        for name, way in ways:
            cpu = _cpu(process)
            count, took = way(number)
            time.sleep(0.05)  # a server that waits for the processes that it has started counts theirs
            used = 1e6 * (_cpu(process) - cpu) / count
            best[name] = round(max(best.get(name, 0.0), count / took), 1)
            least[name] = round(min(least.get(name, used), used), 3)
    return best, least


def _cpu(process: int) -> float:
    """Seconds of CPU time of a process, those that it has started, and those that it has waited for."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, fields = int(stat.parent.name), stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        if number == process or int(fields[1]) == process:
            total += sum(map(int, fields[11:15] if number == process else fields[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def _together(dsn: str, clients: int, seconds: float, keys: int) -> Done:
    """Look-ups of some clients, each a process."""
    with get_context("spawn").Pool(clients) as pool:
        found = pool.starmap(_looked_up, [(dsn, seconds, keys, i) for i in range(clients)])
    count = sum(n for n, _ in found)
    return count, count / sum(n / passed for n, passed in found)


def _looked_up(dsn: str, seconds: float, keys: int, seed: int) -> Done:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as db, db.cursor(binary=True) as cursor:
        count, key, text = 0, seed, "SELECT v FROM kv WHERE k = %s"
        cursor.execute(text, (key,))
        start = time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            for _ in range(20):
                key = (key * 7919 + 1) % keys
                cursor.execute(text, (key,))
                assert cursor.fetchall() == [(f"value {key}",)]
            count += 20
        return count, passed


def _copied(dsn: str, rows: int, again: bool = False) -> Done:
    """Into a new table, or into one that had the same rows before."""
    data = "".join(f"{i}\ttext {i % 1000}\t{i / 8}\n" for i in range(rows))
    with psycopg.connect(dsn, autocommit=True) as db:
        if again:
            db.execute("DELETE FROM wide")
        else:
            db.execute("DROP TABLE wide")
            db.execute(WIDE)
        start = time.perf_counter()
        with db.cursor().copy("COPY wide FROM STDIN") as copy:
            for at in range(0, len(data), 1 << 20):
                copy.write(data[at : at + (1 << 20)])
        return rows, time.perf_counter() - start


def _read(dsn: str) -> Done:
    with psycopg.connect(dsn, autocommit=True) as db, db.cursor(binary=True) as cursor:
        start = time.perf_counter()
        cursor.execute("SELECT a, b, c FROM wide")
        return len(cursor.fetchall()), time.perf_counter() - start


def _read_arrow(web: str) -> Done:
    asked = Request(
        f"{web}/v1/sql",
        data=json.dumps({"sql": "SELECT a, b, c FROM wide"}).encode(),
        headers={"Content-Type": "application/json", "Accept": "application/vnd.apache.arrow.stream"},
    )
    start = time.perf_counter()
    with urlopen(asked) as answer:
        table = pa.ipc.open_stream(answer.read()).read_all()
    return table.num_rows, time.perf_counter() - start


def _idle(dsn: str, process: int, count: int) -> float:
    """Memory for each connection that does nothing, in kB."""

    def held() -> float:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e3

    before = held()
    connections = [psycopg.connect(dsn, autocommit=True) for _ in range(count)]
    for connection in connections:
        connection.execute("SELECT 1")
    found = (held() - before) / count
    for connection in connections:
        connection.close()
    return round(found, 1)


def _inserted(dsn: str, seconds: float, number: int) -> Done:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as db:
        count, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            db.execute("INSERT INTO single VALUES (%s, %s)", (number * 10_000_000 + count, "x"))
            count += 1
        return count, passed


@contextmanager
def _everview() -> Iterator[tuple[str, str, int]]:
    command = [sys.executable, "-m", "everview.cli", "serve", "--pg", "0", "--http", "0", "--no-auth"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = web = ""
        assert process.stdout is not None
        for line in process.stdout:
            if "postgresql://" in line:
                address = line.split("127.0.0.1:")[1].split("/")[0]
            if line.startswith("HTTP"):
                web = f"http://127.0.0.1:{line.rsplit(':', 1)[1].strip()}"
            if line.strip() == "ready":
                break
        yield f"postgresql://everview@127.0.0.1:{address}/everview", web, process.pid
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _postgresql() -> Iterator[tuple[str, str, int]]:
    """A server of its own; nothing if there is none to be had."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    users = {u.pw_name for u in pwd.getpwall()}
    if not found or (os.geteuid() == 0 and "postgres" not in users):
        yield "", "", 0
        return
    binaries, user = found[-1].parent, "postgres" if os.geteuid() == 0 else None
    directory = Path(tempfile.mkdtemp(prefix="everview-pg-"))
    if user is not None:
        shutil.chown(directory, user)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = [binaries / "initdb", "-D", directory / "data", "-U", "test", "-A", "trust", "--no-sync", "--locale=C"]
    subprocess.run([*map(str, made), "--encoding=UTF8"], check=True, capture_output=True, user=user, cwd="/")
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": directory, "fsync": "off"}
    words = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    server = subprocess.Popen(
        [str(binaries / "postgres"), "-D", str(directory / "data"), *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, cwd="/",
    )  # fmt: skip
    try:
        dsn = f"postgresql://test@127.0.0.1:{port}/postgres"
        for _ in range(100):
            try:
                psycopg.connect(dsn).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        yield dsn, "", server.pid
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    chosen = common.arguments(__doc__).parse_args()
    common.report(run(chosen), chosen)
