"""Durable sessions on real servers of object stores and of HDFS: killed at random moments, raced for names; files in
and out.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyarrow import fs

import everview as ev
from everview.store.locations import open_files
from tests.store.servers import az, hdfs, s3
from tests.store.test_killed import kill_again_and_again

__all__ = ["az", "hdfs", "s3"]
LONG = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(params=["s3", *(pytest.param(name, marks=LONG) for name in ("az", "hdfs"))])
def place(request: pytest.FixtureRequest) -> str:
    """Where state can be."""
    found: str = request.getfixturevalue(request.param)
    return found


def test_a_name_is_given_to_one_of_many(place: str) -> None:
    with ThreadPoolExecutor(16) as pool:
        for name in "abc":
            others = [open_files(f"{place}/names") for _ in range(16)]
            won = list(pool.map(lambda i, o=others, name=name: o[i].create(name, b"writer %d" % i), range(16)))
            assert won.count(True) == 1 and others[0].read(name) == b"writer %d" % won.index(True)


def test_one_of_many_replaces_what_all_have_seen(place: str) -> None:
    others = [open_files(f"{place}/swapped") for _ in range(8)]
    seen: list[str | None] = [None]
    with ThreadPoolExecutor(8) as pool:
        for round in range(5):
            if round == 3:
                others[0].delete("owner")
                assert others[1].swap("owner", b"late", seen[-1]) is None and not others[0].exists("owner")
                seen.append(None)
            tags = list(pool.map(lambda i, n=round: others[i].swap("owner", b"%d of %d" % (i, n), seen[-1]), range(8)))
            won = [i for i, tag in enumerate(tags) if tag is not None]
            assert len(won) == 1 and others[0].tagged("owner") == (b"%d of %d" % (won[0], round), tags[won[0]])
            assert all(others[0].swap("owner", b"late", tag) is None for tag in seen)
            seen.append(tags[won[0]])
    assert list(others[0].ages("")) == ["owner"] and others[0].read("owner") == others[0].tagged("owner")[0]


def test_whole_files(place: str) -> None:
    files = open_files(f"{place}/files")
    for data in (b"x" * (1 << 20), [b"a", b"b c"], b""):
        files.write("batches/one two", data)
        wanted = b"".join(data) if isinstance(data, list) else data
        assert files.read("batches/one two") == files.map("batches/one two").to_pybytes() == wanted
    assert (files.list("batches"), files.list("nothing")) == (["one two"], [])
    assert files.exists("batches/one two") and files.ages("batches")["one two"] < 60
    for _ in range(2):
        files.delete("batches/one two")
    assert not files.exists("batches/one two")
    with pytest.raises(FileNotFoundError):
        files.read("batches/one two")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("log_bytes", [300_000, 32 << 20])
def test_many_deaths(place: str, log_bytes: int) -> None:
    few = 2 if place.startswith("webhdfs") else 10  # a transaction there is half a dozen requests
    assert kill_again_and_again(f"{place}/killed-{log_bytes}", 6, log_bytes, "normal", 7) > few


def test_a_second_writer_is_refused_by_name(place: str) -> None:
    with ev.connect(f"{place}/two"), pytest.raises(ev.StoreError, match=r"E_LOCKED.*open for writing in process"):
        ev.connect(f"{place}/two")


def test_a_bucket_that_is_not_there(s3: str) -> None:
    with pytest.raises(ev.StoreError, match=r"E_DISK.*404 Not Found"):
        ev.connect("s3://nobucket/state")


def test_a_name_node_that_is_not_there() -> None:
    with pytest.raises(ev.InputError, match=r"(?s)E_TARGET.*webhdfs://namenode:9870"):
        ev.connect("hdfs://127.0.0.1:8020/state")
    with pytest.raises(ev.StoreError, match=r"E_DISK.*cannot .* webhdfs://127.0.0.1:1/state.*refused"):
        ev.connect("webhdfs://127.0.0.1:1/state")


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
