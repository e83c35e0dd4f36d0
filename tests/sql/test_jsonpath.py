"""Paths into JSON in views, under inserts and deletes; what paths mean is compared with PostgreSQL in test_types."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards

VIEWS = {
    "large": "SELECT id FROM t WHERE j @? '$.a[*] ? (@ > 2)'",
    "items": "SELECT id, i FROM t, jsonb_path_query(j, '$.a[*] ? (@ > 1)') AS i",
    "first": "SELECT id, jsonb_path_query_first(j, '$.a[last]') AS f, jsonb_path_query_array(j, '$.b.c') AS c FROM t",
    "same": "SELECT (j @@ '$.b.c == 1') AS m, count(*) AS n FROM t GROUP BY 1",
    "by_column": "SELECT id FROM t WHERE jsonb_path_exists(j, '$.' || name)",
}


def _wanted(rows: list[tuple[int, str, Any]]) -> dict[str, Counter[Any]]:
    lists = [(i, [n for n in j.get("a", []) if isinstance(n, int)], j) for i, _, j in rows]
    inner = [j.get("b", {}).get("c") for _, _, j in rows]
    return {
        "large": Counter((i,) for i, numbers, _ in lists if any(n > 2 for n in numbers)),
        "items": Counter((i, n) for i, numbers, _ in lists for n in numbers if n > 1),
        "first": Counter(
            (i, repr(j["a"][-1]) if j.get("a") else "None", repr([j["b"]["c"]] if "c" in j.get("b", {}) else []))
            for i, _, j in rows
        ),
        "same": _same(inner),
        "by_column": Counter((i,) for i, name, j in rows if name in j),
    }


def _same(values: list[Any]) -> Counter[Any]:
    truths = Counter(None if isinstance(c, str) else c == 1 for c in values)
    return Counter(truths.items())


@pytest.mark.parametrize("shards", [0, 2])
def test_paths_in_views(shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    table = db.sql("CREATE TABLE t (id int, name text, j jsonb)")
    for name, text in VIEWS.items():
        db.sql(f"CREATE VIEW {name} AS {text}")
    chance = random.Random(1)
    rows: list[tuple[int, str, Any]] = []
    for _ in range(5):
        new = [(chance.randrange(9), chance.choice("abc"), _document(chance)) for _ in range(6)]
        gone = chance.sample(rows, len(rows) // 3)
        with db.transaction():
            table.delete(gone)
            table.insert(new)
        for row in gone:
            rows.remove(row)
        rows += new
        for name, wanted in _wanted(rows).items():
            found = db[name].rows()
            if name == "first":
                found = [(i, repr(f), repr(list(c))) for i, f, c in found]
            assert Counter(found) == wanted, name


def _document(chance: random.Random) -> Any:
    made: dict[str, Any] = {}
    if chance.random() < 0.8:
        made["a"] = [chance.choice([1, 2, 3, "x", True]) for _ in range(chance.randrange(4))]
    if chance.random() < 0.6:
        made["b"] = {"c": chance.choice([1, 2, "1"])} if chance.random() < 0.7 else {}
    return json.loads(json.dumps(made))


@pytest.mark.parametrize("path", ["$.a[", "$x", "$.a.keyvalue()", "$ ? (@.a)", "$.a like_regex 1", "$.a $", "a.b", ""])
def test_paths_that_cannot_be_read_are_errors_in_the_text(path: str) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (j jsonb)")
    with pytest.raises(ev.PlanError) as error:
        db.sql(f"CREATE VIEW v AS SELECT j @? '{path}' AS x FROM t")
    assert error.value.code == "E_PATTERN"


def test_a_strict_path_that_is_not_there_is_an_error_of_the_row() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (j jsonb); CREATE VIEW v AS SELECT jsonb_path_exists(j, 'strict $.a') AS x FROM t")
    db.sql("""INSERT INTO t VALUES ('{"a": 1}'), ('{}')""")
    with pytest.raises(ev.RowErrors):
        db["v"].rows()
    db.sql("DELETE FROM t WHERE j = '{}'")
    assert db["v"].rows() == [(True,)]
