"""Durable sessions on a real S3 server: killed at random moments, raced for names, files in and out."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyarrow import fs

import everview as ev
from everview.store.files import open_files
from tests.store.s3 import s3
from tests.store.test_killed import kill_again_and_again

__all__ = ["s3"]
pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_a_name_is_given_to_one_of_many(s3: str) -> None:
    with ThreadPoolExecutor(16) as pool:
        for name in "abcdef":
            others = [open_files(f"{s3}/names") for _ in range(16)]
            won = list(pool.map(lambda i, o=others, name=name: o[i].create(name, b"writer %d" % i), range(16)))
            assert won.count(True) == 1 and others[0].read(name) == b"writer %d" % won.index(True)


@pytest.mark.parametrize("log_bytes", [300_000, 32 << 20])
def test_many_deaths(s3: str, log_bytes: int) -> None:
    assert kill_again_and_again(f"{s3}/killed-{log_bytes}", 6, log_bytes, "normal", 7) > 10


def test_a_second_writer_is_refused_by_name(s3: str) -> None:
    with ev.connect(f"{s3}/two"), pytest.raises(ev.StoreError, match=r"E_LOCKED.*open for writing in process"):
        ev.connect(f"{s3}/two")


def test_a_bucket_that_is_not_there(s3: str) -> None:
    with pytest.raises(ev.StoreError, match=r"E_DISK.*404 Not Found"):
        ev.connect("s3://nobucket/state")


def test_files_in_and_out(s3: str) -> None:
    where = f"{s3}/pipeline"
    remote, root = fs.FileSystem.from_uri(where)

    def arrive(name: str, *amounts: int) -> None:
        with remote.open_output_stream(f"{root}/in/{name}") as file:
            file.write("".join(json.dumps({"id": a, "amount": a}) + "\n" for a in amounts).encode())

    for number in range(3):
        arrive(f"{number}.json", *range(10 * number, 10 * number + 10))
        with ev.connect(f"{where}/state") as db:
            db.source("t", ev.io.json(f"{where}/in"), schema={"id": int, "amount": int}, max_rows_per_step=4)
            v = db.sql("CREATE VIEW v AS SELECT count(*) AS n, sum(amount) AS s FROM t")
            v.write_to(ev.io.parquet(f"{where}/changes"))
            v.write_to(ev.io.csv(f"{where}/now.csv"), mode="snapshot")
            assert db.run(until="caught_up").rows == {"t": 10}
            now = v.rows()
    other = ev.connect()
    copy = other.source("v", ev.io.parquet(f"{where}/changes"), mode="changes")
    other.source("now", ev.io.csv(f"{where}/now.csv"), schema={"n": int, "s": int})
    other.run(until="caught_up")
    assert copy.rows() == now == other["now"].rows() == [(30, sum(range(30)))]
