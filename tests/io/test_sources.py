"""Sources: what is read from files and rows, what a restart finds, what is refused and how."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import everview as ev
from everview.io import Chunk, Source
from everview.language.relation import relation_of
from tests.inside import inside


def lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def caught_up(db: ev.Session) -> ev.io.Run:
    return db.run(until="caught_up")


def test_the_runtime_is_the_one_asked_for(runtime: str) -> None:
    found = type(inside(ev.connect()).runtime).__name__
    assert found == {"embedded": "EmbeddedRuntime", "sharded": "ShardedRuntime"}[runtime]


# reading


def test_csv_infers_types_and_tells_null_from_empty(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,name,price,day\n1,"pe\nar",1.5,2024-02-03\n2,,,\n3,"",2,2024-02-04\n')
    db = ev.connect()
    t = db.source("t", tmp_path / "a.csv")
    assert caught_up(db).rows == {"t": 3}
    assert sorted(t.rows()) == [
        (1, "pe\nar", 1.5, dt.date(2024, 2, 3)),
        (2, None, None, None),
        (3, "", 2.0, dt.date(2024, 2, 4)),
    ]


def test_csv_options(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1;'x;y';NA\n2;z;3\n")
    db = ev.connect()
    source = ev.io.csv(tmp_path / "a.csv", delimiter=";", quote="'", header=["a", "b", "c"], null="NA")
    t = db.source("t", source, schema={"a": int, "b": str, "c": int | None})
    caught_up(db)
    assert sorted(t.rows()) == [(1, "x;y", None), (2, "z", 3)]


def test_csv_without_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,x\n2,y\n")
    db = ev.connect()
    t = db.source("t", ev.io.csv(tmp_path / "a.csv", header=False))
    caught_up(db)
    assert t.schema().keys() == {"c0", "c1"}
    assert sorted(t.rows()) == [(1, "x"), (2, "y")]


TYPES = {"i": int, "f": float, "b": bool, "s": str, "y": bytes, "d": dt.date, "t": dt.datetime, "m": "decimal(2)"}
VALUES = (
    7,
    0.5,
    True,
    "ü,\"'",
    b"\x00\xff",
    dt.date(1999, 12, 31),
    dt.datetime(2024, 1, 2, 3, 4, 5, 6),
    Decimal("1.25"),
)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "arrow"])
def test_every_type_comes_back_from_every_format(tmp_path: Path, kind: str) -> None:
    db = ev.connect()
    given = db.table("given", {**TYPES, "n": str | None, "p": tuple[int, str]})
    rows = [(*VALUES, None, (1, "a")), (*VALUES[:3], "", *VALUES[4:], "x", (2, ""))]
    given.insert(rows)
    make = getattr(ev.io, kind)
    path = tmp_path / f"a.{kind}"
    with path.open("wb") as file:
        make(path).format.write(given.to_arrow(), file)
    back = db.source("back", make(path), schema={c.name: c.type for c in relation_of(given).columns})
    caught_up(db)
    assert sorted(back.rows(), key=repr) == sorted(given.rows(), key=repr)


def test_gzip_and_limits(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("x\n" + "".join(f"{i}\n" for i in range(10)))
    db = ev.connect()
    t = db.source("t", tmp_path / "a.csv.gz", max_rows_per_step=4)
    run = caught_up(db)
    assert (run.rows, run.time) == ({"t": 10}, 3)
    assert sorted(t.rows()) == [(i,) for i in range(10)]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_binary_files_in_steps(tmp_path: Path, kind: str) -> None:
    table = pa.table({"x": list(range(100))})
    if kind == "parquet":
        pa.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    else:
        with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=30)
    db = ev.connect()
    t = db.source("t", getattr(ev.io, kind)(tmp_path), max_rows_per_step=25)
    caught_up(db)
    assert sorted(t.rows()) == [(i,) for i in range(100)]


def test_a_directory_that_grows(tmp_path: Path) -> None:
    lines(tmp_path / "1.json", [{"x": 1}])
    (tmp_path / "_hidden.json").write_text("nonsense")
    (tmp_path / "half.json.tmp").write_text("{")
    db = ev.connect()
    t = db.source("t", ev.io.json(tmp_path))
    caught_up(db)
    (tmp_path / "sub").mkdir()
    lines(tmp_path / "sub" / "0.json", [{"x": 2}, {"x": 3}])
    assert caught_up(db).rows == {"t": 2}
    assert caught_up(db).rows == {"t": 0}
    assert sorted(t.rows()) == [(1,), (2,), (3,)]


def test_patterns_and_order(tmp_path: Path) -> None:
    for number, name in enumerate(["b.json", "a.json", "c.txt"]):
        lines(tmp_path / name, [{"k": 1, "from": name}])
        os.utime(tmp_path / name, (number, number))
    for order, last in (("modified", "a.json"), ("name", "b.json")):
        db = ev.connect()
        t = db.source("t", ev.io.json(tmp_path / "*.json", order=order), key="k")  # type: ignore[arg-type]
        caught_up(db)
        assert t.rows() == [(1, last)]


def test_tail_waits_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x\n1\n2")
    db = ev.connect()
    t = db.source("t", ev.io.csv(path, tail=True), schema={"x": int})
    caught_up(db)
    assert t.rows() == [(1,)]
    with path.open("a") as file:
        file.write("3\n4\n")
    caught_up(db)
    assert sorted(t.rows()) == [(1,), (4,), (23,)]


def test_rows_from_a_generator(tmp_path: Path) -> None:
    db = ev.connect()
    t = db.source("t", ({"x": i, "y": None if i else "a"} for i in range(5)), max_rows_per_step=2)
    assert caught_up(db).time == 3
    assert sorted(t.rows()) == [(0, "a"), *[(i, None) for i in range(1, 5)]]


def test_arrow_table_and_pandas(tmp_path: Path) -> None:
    db = ev.connect()
    table = pa.table({"x": [1, 2]})
    db.source("a", table)
    db.source("b", table.to_pandas())
    caught_up(db)
    assert sorted(db["a"].rows()) == sorted(db["b"].rows()) == [(1,), (2,)]


# positions


def test_positions_are_marks_of_the_same_transaction(tmp_path: Path) -> None:
    lines(tmp_path / "1.json", [{"x": i} for i in range(5)])
    db = ev.connect()
    db.source("t", ev.io.json(tmp_path), max_rows_per_step=2)
    seen: list[tuple[int, str]] = []
    view = db.view("v", db["t"].select(ev.col.x))
    view.subscribe(lambda batch: seen.append((len(batch.rows()), inside(db).runtime.offsets["source/t/file/1.json"])))
    caught_up(db)
    size = (tmp_path / "1.json").stat().st_size
    assert seen == [(2, "[18, 0, 0]"), (2, "[36, 0, 0]"), (1, f"[{size}, {size}, 1]")]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_another_session_goes_on_from_the_marks(tmp_path: Path, kind: str) -> None:
    """What a restart does: the state knows rows and marks, the source object is new."""
    table = pa.table({"x": list(range(10)), "s": [f"n{i}" for i in range(10)]})
    with (tmp_path / f"1.{kind}").open("wb") as file:
        getattr(ev.io, kind)("x").format.write(table, file)

    def start(marks: dict[str, str], taken: list[Any]) -> ev.Session:
        db = ev.connect()
        db.source("t", getattr(ev.io, kind)(tmp_path), max_rows_per_step=3)
        inside(db).runtime.offsets.update(marks)
        db["t"].insert(taken)
        return db

    first = start({}, [])
    inside(first).attached["pipeline"].feeds["t"].begin(follow=True)
    for _ in range(2):
        inside(first).attached["pipeline"].feeds["t"].step()
    second = start(inside(first).runtime.offsets, first["t"].rows())
    assert caught_up(second).rows == {"t": 4}
    assert sorted(second["t"].rows()) == sorted(zip(*table.to_pydict().values(), strict=True))
    third = start(inside(second).runtime.offsets, second["t"].rows())
    assert caught_up(third).rows == {"t": 0}


def test_a_failed_step_is_taken_again(tmp_path: Path) -> None:
    lines(tmp_path / "1.json", [{"x": 1}, {"x": 2}, {"x": "three"}])
    db = ev.connect()
    t = db.source("t", ev.io.json(tmp_path), schema={"x": int}, max_rows_per_step=2)
    for _ in range(2):
        with pytest.raises(ev.InputError, match="E_RECORD"):
            caught_up(db)
        assert sorted(t.rows()) == [(1,), (2,)]
    lines(tmp_path / "1.json", [{"x": 1}, {"x": 2}, {"x": 3}])
    caught_up(db)
    assert sorted(t.rows()) == [(1,), (2,), (3,)]


def test_a_failing_subscriber_does_not_undo_the_step(tmp_path: Path) -> None:
    db = ev.connect()
    t = db.source("t", [(1,), (2,)], schema={"x": int}, max_rows_per_step=1)
    view = db.view("v", t.distinct())

    @view.subscribe
    def fail(batch: ev.Batch) -> None:
        if batch.time == 1:
            raise RuntimeError("no")

    caught_up(db)  # what a subscriber raises is its own
    assert isinstance(fail.error, RuntimeError)
    assert sorted(t.rows()) == [(1,), (2,)]


# modes


def test_upsert_takes_the_last_row_of_a_key(tmp_path: Path) -> None:
    db = ev.connect()
    t = db.source("t", [(1, "a"), (2, "b"), (1, "c")], schema={"k": int, "v": str}, key="k")
    caught_up(db)
    assert sorted(t.rows()) == [(1, "c"), (2, "b")]


@pytest.mark.parametrize("key", [None, "k"])
def test_snapshots_are_compared_with_what_is_known(key: str | None) -> None:
    contents = [(1, "a"), (2, "b"), (3, "c")]
    db = ev.connect()
    t = db.source("t", ev.io.rows(lambda: contents), schema={"k": int, "v": str}, mode="snapshot", key=key)
    v = db.view("v", t.select(ev.col.k, ev.col.v))
    caught_up(db)
    contents[1:] = [(2, "B"), (4, "d")]
    caught_up(db)
    assert sorted(v.changes(since=1)) == [
        ((2, "B"), 2, 1),
        ((2, "b"), 2, -1),
        ((3, "c"), 2, -1),
        ((4, "d"), 2, 1),
    ]
    contents.clear()
    caught_up(db)
    assert t.rows() == []


def test_snapshot_of_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n1\n2\n")
    db = ev.connect()
    t = db.source("t", path, mode="snapshot")
    caught_up(db)
    assert sorted(t.rows()) == [(1,), (1,), (2,)]
    assert caught_up(db).time == 1, "nothing is done for a file that has not changed"
    path.write_text("x\n1\n3\n")
    os.utime(path, (5, 5))
    assert caught_up(db).rows == {"t": 3}
    assert sorted(t.rows()) == [(1,), (3,)]


STAMPED = {"ts": dt.datetime, "n": int}

FEED = [
    {"id": 1, "v": "a", "_change_type": "insert", "_commit_version": 0},
    {"id": 2, "v": "b", "_change_type": "insert", "_commit_version": 0},
    {"id": 1, "v": "A", "_change_type": "update_postimage", "_commit_version": 1},
    {"id": 1, "v": "a", "_change_type": "update_preimage", "_commit_version": 1},
    {"id": 2, "v": "b", "_change_type": "delete", "_commit_version": 2},
]


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("form", ["json", "parquet", "rows"])
@pytest.mark.parametrize("limit", [None, 1, 3])
def test_delta_change_feed(tmp_path: Path, key: str | None, form: str, limit: int | None) -> None:
    db = ev.connect()
    source: Any = FEED
    if form == "json":
        source = ev.io.json(lines(tmp_path / "f.json", FEED))
    elif form == "parquet":
        pa.parquet.write_table(pa.Table.from_pylist(FEED), tmp_path / "f.parquet")
        source = ev.io.parquet(tmp_path)
    t = db.source("t", source, mode="changes", key=key, max_rows_per_step=limit)
    assert caught_up(db).time == {None: 1, 1: 5, 3: 2}[limit]
    assert t.rows() == [(1, "A")]


@pytest.mark.parametrize("version", [["b", "b", "a"], [3, 3, 8], [None, None, None], [1, 1, 0]])
def test_commits_are_put_in_order_whatever_their_versions_are(tmp_path: Path, version: list[Any]) -> None:
    """What a version is, is up to the catalog: texts, or numbers in no order; then timestamps tell."""
    stamps = [dt.datetime(2026, 1, 1, 12, 1)] * 2 + [dt.datetime(2026, 1, 1, 12, 0)]
    kinds = ["insert", "delete", "insert"]
    feed = {"id": [1, 1, 1], "v": ["b", "a", "a"], "_change_type": kinds, "_commit_version": version}
    pa.parquet.write_table(pa.table({**feed, "_commit_timestamp": stamps}), tmp_path / "f.parquet")
    db = ev.connect()
    t = db.source("t", ev.io.parquet(tmp_path), mode="changes", key="id")
    caught_up(db)
    assert t.rows() == [(1, "b")]


def test_change_column_of_another_name_and_counts() -> None:
    db = ev.connect()
    counted = [{"x": 1, "n": 3}, {"x": 2, "n": 1}, {"x": 1, "n": -2}]
    t = db.source("t", counted, mode="changes", change_column="n")
    caught_up(db)
    assert sorted(t.rows()) == [(1,), (2,)]


DEBEZIUM: list[Any] = [
    {"op": "r", "before": None, "after": {"id": 1, "v": "a"}, "ts_ms": 1},
    {"op": "c", "before": None, "after": {"id": 2, "v": "b"}},
    {"op": "u", "before": {"id": 1, "v": "a"}, "after": {"id": 3, "v": "A"}},
    {"op": "d", "before": {"id": 2, "v": "b"}, "after": None},
    None,
]


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("form", ["plain", "payload", "text"])
def test_debezium(tmp_path: Path, key: str | None, form: str) -> None:
    records: list[Any] = DEBEZIUM
    if form == "payload":
        records = [{"schema": {"type": "struct"}, "payload": r} for r in DEBEZIUM]
    if form == "text":
        records = [{"value": None if r is None else json.dumps(r)} for r in DEBEZIUM]
        source: Any = records
    else:
        source = ev.io.json(lines(tmp_path / "f.json", [r for r in records if r]))
    db = ev.connect()
    t = db.source("t", source, mode="changes", key=key, schema={"id": int, "v": str})
    assert caught_up(db).rejected == {}
    assert t.rows() == [(3, "A")]


def test_debezium_infers_columns_deletes_by_key_alone_and_truncates(tmp_path: Path) -> None:
    first = lines(tmp_path / "1.json", DEBEZIUM[:2])
    os.utime(first, (1, 1))
    db = ev.connect()
    t = db.source("t", ev.io.json(tmp_path), mode="changes", key="id")
    caught_up(db)
    assert repr(t) == "Collection(id int, v str?)"
    lines(tmp_path / "2.json", [{"op": "d", "before": {"id": 1}, "after": None}])
    caught_up(db)
    assert t.rows() == [(2, "b")]
    lines(tmp_path / "3.json", [{"op": "t"}, {"op": "c", "after": {"id": 9, "v": None}}])
    caught_up(db)
    assert t.rows() == [(9, None)]


def test_delivered_twice_does_no_harm_with_a_key() -> None:
    db = ev.connect()
    t = db.source("t", DEBEZIUM[:4] * 2, mode="changes", key="id", schema={"id": int, "v": str})
    caught_up(db)
    assert t.rows() == [(3, "A")]


# bad records

BROKEN = 'a,b\n1,x\nthree,y\n4\n"5","z"\n6,\xff\n'


def test_bad_records_are_set_aside_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(BROKEN.encode("latin-1"))
    db = ev.connect()
    t = db.source("t", ev.io.csv(tmp_path), schema={"a": int, "b": str}, bad="quarantine")
    run = caught_up(db)
    assert sorted(t.rows()) == [(1, "x"), (5, "z")]
    assert run.rejected == {"t": 3}
    place = f"{tmp_path}/a.csv, byte 4"
    assert sorted(db["t_rejected"].rows()) == [
        (place, "[E_RECORD] In CSV column #1: Row #1: CSV conversion error to string: invalid UTF8 data", "6,\\xff\n"),
        (place, "[E_TYPE] column 'a': 'three' is not an int", '{"a": "three", "b": "y"}'),
        (place, "[E_WIDTH] 1 fields, not 2", "4"),
    ]


def test_a_bad_record_stops_the_run(tmp_path: Path) -> None:
    lines(tmp_path / "a.json", [{"x": 1}, {"x": "no"}, {"x": None}])
    db = ev.connect()
    t = db.source("t", ev.io.json(tmp_path), schema={"x": int})
    with pytest.raises(ev.InputError) as error:
        caught_up(db)
    assert str(error.value) == (
        f"[E_RECORD] source 't': {tmp_path}/a.json up to byte 33: [E_TYPE] column 'x': 'no' is a str, not an int "
        '(and 1 more)\n  record: {"x": "no"}\n'
        '  hint: correct it, or set bad records aside with db.source(..., bad="quarantine")'
    )
    assert (t.rows(), db.time) == ([], 0)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "[E_RECORD] Expecting property name enclosed in double quotes"),
        ("[1]", "[E_RECORD] [1] is not a JSON object"),
        ('{"x": 1, "z": 2}', "[E_COLUMN] there is no column 'z' in table 't'"),
        ('{"x": 9223372036854775808}', "[E_RANGE] column 'x'"),
    ],
)
def test_bad_json(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.json").write_text('{"x": 1, "y": "2024-01-01"}\n')
    db = ev.connect()
    t = db.source("t", ev.io.json(tmp_path), bad="quarantine")
    caught_up(db)
    (tmp_path / "b.json").write_text(text + '\n{"x": 2, "y": null}\n')
    caught_up(db)
    assert len(t.rows()) == 2
    [(place, why, _)] = db["t_rejected"].rows()
    assert why.startswith(reason)
    assert place.startswith(str(tmp_path / "b.json"))


def test_a_broken_file_is_one_dead_letter(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    db = ev.connect()
    t = db.source("t", ev.io.parquet(tmp_path), bad="quarantine")
    caught_up(db)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and then nothing")
    assert caught_up(db).rejected == {"t": 1}
    assert caught_up(db).rejected == {}
    assert t.rows() == [(1,)]
    [(place, reason, _)] = db["t_rejected"].rows()
    assert place == str(tmp_path / "b.parquet")
    assert reason.startswith(f"[E_FILE] {place} cannot be read: Parquet magic bytes not found")


def test_bad_changes() -> None:
    db = ev.connect()
    feed = [{"x": 1, "_change_type": "insert"}, {"x": 2, "_change_type": "upsert"}, {"x": 3, "_change_type": "delete"}]
    t = db.source("t", feed, mode="changes", bad="quarantine")
    caught_up(db)
    assert t.rows() == [(1,)]
    assert sorted(db["t_rejected"].rows()) == [
        ("rows", "[E_ABSENT] deleted, but not there", "[3]"),
        (
            "rows from 0",
            "[E_CHANGES] 'upsert' in column '_change_type' is not a kind of change",
            '{"x": 2, "_change_type": "upsert"}',
        ),
    ]


@pytest.mark.parametrize(
    "record, reason",
    [
        ({"op": "x"}, "[E_CHANGES] 'x' is not a Debezium op"),
        ({"op": "u", "before": None, "after": {"id": 1, "v": "a"}}, "[E_CHANGES] op 'u' without before"),
        ({"op": "c", "after": None}, "[E_CHANGES] op 'c' without after"),
        ({"op": "c", "after": {"id": None, "v": "a"}}, "[E_NULL] column 'id'"),
        ({"value": "{"}, "[E_RECORD] no JSON"),
    ],
)
def test_bad_debezium(record: Any, reason: str) -> None:
    db = ev.connect()
    good = {"op": "c", "after": {"id": 1, "v": "a"}}
    db.source("t", [good, record], mode="changes", bad="quarantine", schema={"id": int, "v": str})
    caught_up(db)
    assert db["t"].rows() == [(1, "a")]
    [(_, why, _)] = db["t_rejected"].rows()
    assert why.startswith(reason)


# refusals


def refused(code: str, message: str, hint: str, call: Any) -> None:
    with pytest.raises(ev.InputError) as error:
        call()
    assert (error.value.code, error.value.message, error.value.hint) == (code, message, hint)


def test_refusals(tmp_path: Path) -> None:
    db = ev.connect()
    (tmp_path / "empty").mkdir()
    missing = str(tmp_path / "missing")
    empty = str(tmp_path / "empty")
    refused(
        "E_FILE",
        f"there is no file or directory {missing!r}",
        "check the path; a directory that files will arrive in must exist, but may be empty",
        lambda: db.source("t", ev.io.csv(missing)),
    )
    refused(
        "E_SCHEMA",
        f"there is nothing yet in {empty!r} to tell the columns from",
        'give schema={"column": type, ...}',
        lambda: db.source("t", ev.io.csv(empty)),
    )
    refused(
        "E_SCHEMA",
        "the columns of these rows are not known",
        'give schema={"column": type, ...}, or rows as dicts',
        lambda: db.source("t", [(1,)]),
    )
    refused(
        "E_FORMAT",
        "the format of 'x.xls' cannot be inferred from its name",
        "use ev.io.csv(path), ev.io.json(path), ...",
        lambda: db.source("t", "x.xls"),
    )
    refused("E_MODE", "mode='upset' is not known", "did you mean 'upsert'?", lambda: db.source("t", [], mode="upset"))  # type: ignore[arg-type]
    refused(
        "E_NO_KEY",
        'mode="upsert" needs a key',
        'say which column it is: key="id"',
        lambda: db.source("t", [{"x": 1}], mode="upsert"),
    )
    refused(
        "E_MODE",
        'mode="append" with a key would let a key come twice',
        'use mode="upsert", or leave the key out',
        lambda: db.source("t", [{"x": 1}], mode="append", key="x"),
    )
    refused(
        "E_CHANGES",
        "nothing in (x, y) says what happened to a row",
        "name the column with change_column=; _change_type, _diff and Debezium's op are found by themselves",
        lambda: db.source("t", [{"x": 1, "y": 2}], mode="changes"),
    )
    refused(
        "E_OPTION",
        "parquet files cannot be followed",
        "tail=True is for csv and json",
        lambda: ev.io.Files("x", ev.io.parquet("x").format, tail=True),
    )
    refused(
        "E_NO_SOURCE",
        "there is nothing to run: the session has no source",
        "add one: db.source(...)",
        lambda: db.run(),
    )
    refused(
        "E_DURATION",
        "'soon' is not a duration",
        'write "caught_up", "5s", "200ms", "2m", "1h" or a timedelta',
        lambda: db.run(until="soon"),
    )
    db.source("t", [{"x": 1}])
    refused(
        "E_NAME",
        "table 't' already has a source",
        "give the second source another name",
        lambda: db.source("t", [{"x": 1}]),
    )
    with db.transaction():
        refused(
            "E_TRANSACTION",
            "db.run cannot be part of a transaction",
            "end the transaction first",
            lambda: db.run(until="caught_up"),
        )
    assert "t_rejected" not in db


def test_a_file_that_changes_after_it_was_read(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.json", [{"x": 1}])
    db = ev.connect()
    db.source("t", ev.io.json(tmp_path))
    caught_up(db)
    lines(path, [{"x": 1}, {"x": 2}])
    refused(
        "E_SOURCE_CHANGED",
        f"{path} was read when it had 9 bytes and has 18 now",
        'write new records to new files, follow text files that grow with tail=True, or use mode="snapshot"',
        lambda: caught_up(db),
    )


def test_an_existing_table_is_fed_on(tmp_path: Path) -> None:
    db = ev.connect()
    t = db.table("t", {"x": int, "y": str | None}, key="x")
    assert db.source("t", [{"x": 1}], key="x") is t
    caught_up(db)
    assert t.rows() == [(1, None)]
    db.table("u", {"x": int})
    refused(
        "E_SCHEMA",
        "table 'u' exists with no key, the source asks for x",
        "give the key the table was made with",
        lambda: db.source("u", [{"x": 1}], key="x"),
    )


def test_lists_in_json_as_text(tmp_path: Path) -> None:
    lines(tmp_path / "a.json", [{"x": [{"y": "ü"}], "p": {"a": 1, "b": "c"}}])
    db = ev.connect()
    with pytest.raises(ev.InputError, match=r"E_SCHEMA.*column 'x'"):
        db.source("t", ev.io.json(tmp_path))
    t = db.source("t", ev.io.json(tmp_path), schema={"x": str, "p": tuple[int, str]})
    caught_up(db)
    assert t.rows() == [('[{"y":"ü"}]', (1, "c"))]


class Countdown(Source):
    """A source of one's own: three lines that matter."""

    def __init__(self, start: int) -> None:
        self.left = start

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("n", pa.int64(), nullable=False)])

    def open(self, marks: Any, wanted: Any, snapshots: bool) -> None:
        self.left = int(marks.get("left", self.left))

    def poll(self, limit: int | None) -> Chunk | None:
        if self.left == 0:
            return None
        self.left -= 1
        return Chunk(f"count {self.left}", [(self.left,)], {"left": str(self.left)})


def test_a_source_of_ones_own() -> None:
    db = ev.connect()
    t = db.source("t", Countdown(3))
    assert caught_up(db).time == 3
    assert sorted(t.rows()) == [(0,), (1,), (2,)]


def test_late_rows_correct_views_and_sinks() -> None:
    """There is no watermark: a row that comes hours late is a change like any other."""
    noon = dt.datetime(2026, 1, 1, 12)
    arriving = [[(noon, 1), (noon + dt.timedelta(hours=5), 2)], [(noon, 4)]]
    db = ev.connect()
    db.source("t", ev.io.rows([row for rows in arriving for row in rows]), schema=STAMPED, max_rows_per_step=2)
    v = db.sql("CREATE VIEW v AS SELECT date_trunc('hour', ts) AS h, sum(n) AS n FROM t GROUP BY 1")
    told: list[Any] = []
    v.write_to(ev.io.foreach(lambda batch: told.append(sorted((n, d) for (_, n), d in batch.rows()))))
    assert caught_up(db).late == {}
    assert told == [[(1, 1), (2, 1)], [(1, -1), (5, 1)]]


def test_rows_that_come_after_the_watermark_are_counted() -> None:
    noon = dt.datetime(2026, 1, 1, 12)
    rows = [{"ts": noon + dt.timedelta(minutes=m), "n": m} for m in (0, 30, 5, 31, 19, 20)]
    db = ev.connect()
    db.sql("CREATE TABLE t (ts timestamp, n bigint, WATERMARK FOR ts AS ts - INTERVAL '10 minutes')")
    db.source("t", ev.io.rows(rows), max_rows_per_step=2)
    run = caught_up(db)
    assert sorted(n for _, n in db["t"].rows()) == [0, 30, 31]
    assert run.rows == {"t": 6} and run.late == {"t": 3} and "too late: t 3" in str(run)


def test_rows_that_come_after_their_time_to_live_are_counted() -> None:
    noon = dt.datetime(2099, 1, 1, 12)  # the clock only moves forward
    rows = [{"ts": noon + dt.timedelta(minutes=m), "n": m} for m in (-30, -5, 0, 5)]
    db = ev.connect()
    db.sql("CREATE TABLE t (ts timestamp, n bigint) TTL ts + INTERVAL '10 minutes'")
    db.advance(noon)
    db.source("t", ev.io.rows(rows))
    run = caught_up(db)
    assert sorted(n for _, n in db["t"].rows()) == [-5, 0, 5]
    assert run.rows == {"t": 4} and run.late == {"t": 1} and "too late: t 1" in str(run)
    assert caught_up(db).late == {}
