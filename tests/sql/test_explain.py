"""Plans are pinned: the 22 queries of TPC-H, and what EXPLAIN says about sizes and sharing.

After a change that is meant, `EVERVIEW_GOLDEN=1 pytest tests/sql/test_explain.py` writes the files anew; read the diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from everview.sql.select import compiler

TPCH = Path(__file__).parent / "tpch"
PLANS = Path(__file__).parent / "plans"
QUERIES = sorted(p.stem for p in TPCH.glob("q*.sql"))


def golden(name: str, text: str) -> None:
    """Compare with the file of that name, or write it; how many bytes a batch takes is not what is pinned."""
    text = re.sub(r"\d+ bytes", "# bytes", text)
    path = PLANS / f"{name}.txt"
    if os.environ.get("EVERVIEW_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert path.read_text() == text + "\n"


def explained(db: ev.Session, text: str) -> str:
    return "\n".join(row[0] for row in db.sql(f"EXPLAIN {text}"))


@pytest.fixture(scope="module")
def tpch() -> ev.Session:
    db = ev.connect()
    db.sql((TPCH / "schema.sql").read_text())
    return db


@pytest.mark.parametrize("name", QUERIES)
def test_plans_of_tpch(tpch: ev.Session, name: str) -> None:
    text = explained(tpch, (TPCH / f"{name}.sql").read_text())
    golden(name, "\n".join(line for line in text.split("\n") if not line.startswith("kept: ")))


def star(rows: int) -> ev.Session:
    """A large table in the middle of two small ones, and a view of it."""
    db = ev.connect()
    db.sql(
        """
        CREATE TABLE sale (id int PRIMARY KEY, shop int NOT NULL, item int NOT NULL, amount int NOT NULL);
        CREATE TABLE shop (id int PRIMARY KEY, town text NOT NULL);
        CREATE TABLE item (id int PRIMARY KEY, kind text NOT NULL);
        """
    )
    with db.transaction():
        for name, values in (
            ("sale", [(i, i % 50, i % 200, i % 7) for i in range(rows)]),
            ("shop", [(i, f"town {i % 5}") for i in range(50)]),
            ("item", [(i, f"kind {i % 9}") for i in range(200)]),
        ):
            table = db[name]
            assert isinstance(table, ev.Table)
            table.insert(values)
    db.sql("CREATE VIEW by_shop AS SELECT shop, sum(amount) AS s FROM sale GROUP BY shop")
    return db


STAR = """
    SELECT shop.town, item.kind, sum(amount) AS amount FROM sale, shop, item
    WHERE sale.shop = shop.id AND sale.item = item.id AND shop.town = 'town 1' GROUP BY shop.town, item.kind"""


@pytest.mark.parametrize(("rows", "name"), [(100, "star_small"), (20_000, "star_large")])
def test_joins_begin_with_the_fewest_rows_once_tables_are_large(rows: int, name: str) -> None:
    db = star(rows)
    golden(name, explained(db, STAR))
    expected = db.sql(STAR).rows()
    view = db.sql(f"CREATE VIEW v AS {STAR}")
    assert sorted(view.rows()) == sorted(expected)


def test_explain_says_who_shares_what() -> None:
    db = star(100)
    db.sql("CREATE VIEW other AS SELECT shop, s FROM by_shop WHERE s > 3")
    golden("sharing", db["other"].explain())
    assert "also for by_shop" in db["other"].explain()


def test_patterns_are_joined_at_once_and_dimensions_one_by_one() -> None:
    """A triangle in a graph is a join of many inputs; a cycle through different tables is not."""
    db = ev.connect()
    db.sql("CREATE TABLE e (a int NOT NULL, b int NOT NULL); CREATE TABLE f (a int NOT NULL, b int NOT NULL)")
    db.sql("CREATE TABLE g (a int NOT NULL, b int NOT NULL)")
    cycle = "SELECT x.a, y.a AS b, z.a AS c FROM {} x, {} y, {} z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
    pattern = db.sql(f"CREATE VIEW pattern AS {cycle.format('e', 'e', 'e')}")
    tables = db.sql(f"CREATE VIEW tables AS {cycle.format('e', 'f', 'g')}")
    assert "wco" in pattern.explain()
    assert "wco" not in tables.explain()
    for name in "efg":
        db.sql(f"INSERT INTO {name} VALUES (1, 2), (2, 3), (3, 1), (3, 3)")
    assert sorted(pattern.rows()) == sorted(tables.rows()) == [(1, 2, 3), (2, 3, 1), (3, 1, 2), (3, 3, 3)]


def keyed() -> ev.Session:
    """Three tables that are all arranged by the column they are joined on."""
    db = ev.connect()
    for name in "abc":
        db.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, v int NOT NULL)")
        db.sql(f"INSERT INTO {name} VALUES (1, 10), (2, 20), (3, 30)")
    return db


KEYED = "SELECT a.id, a.v, b.v AS w, c.v AS x FROM a, b, c WHERE a.id = b.id AND b.id = c.id"


def test_joins_whose_indexes_are_there_keep_nothing_else() -> None:
    db = keyed()
    assert "join of 3 inputs: delta, because it is acyclic and all its indexes exist" in explained(db, KEYED)
    view = db.sql(f"CREATE VIEW joined AS {KEYED}")
    assert "delta join of 3 inputs" in view.explain()
    assert len(view.stats()["arrangements"]) == 4
    db.sql("UPDATE b SET v = 21 WHERE id = 2; DELETE FROM c WHERE id = 3")
    assert sorted(view.rows()) == [(1, 10, 10, 10), (2, 20, 21, 20)]
    other = "SELECT a.id, b.v FROM a, b, c WHERE a.v = b.id AND b.v = c.v"
    assert "join of 3 inputs: binary, because it is acyclic and some indexes for delta are missing" in explained(
        db, other
    )


def test_plans_as_asked_for() -> None:
    """By a hint, for one statement; by SET, until it is set otherwise; the hint is nearer."""
    db = keyed()
    for hint, wanted in (("/*+ plan(binary) */", None), ("/*+ plan(wco) */", "wco"), ("/* plan(binary) */", "delta")):
        view = db.sql(f"CREATE OR REPLACE VIEW joined AS SELECT {hint} * FROM ({KEYED}) AS k")
        assert [w for w in ("delta", "wco") if f"{w} join" in view.explain()] == ([wanted] if wanted else [])
        assert len(view.rows()) == 3
    db.sql("SET plan = 'binary'")
    assert db.sql("SHOW plan").rows() == [("binary",)]
    assert "binary, because you asked for it" in explained(db, KEYED)
    assert "wco, because you asked for it" in explained(db, f"/*+ plan(wco) */ {KEYED}")
    prepared = db.prepare("one", f"{KEYED} AND a.v = $v")
    assert prepared(20).rows() == [(2, 20, 20, 20)] and "delta join" not in db["one"].explain()
    db.sql("SET plan = default")
    assert "delta, because" in explained(db, KEYED)


@pytest.mark.parametrize("text", ["SELECT /*+ plan(deltas) */ 1", "SET plan = 'deltas'"])
def test_plans_that_there_are_not(text: str) -> None:
    with pytest.raises(ev.EverviewError, match=r"E_PLAN.*line 1, column .*(?s:.*)did you mean 'delta'"):
        ev.connect().sql(text)


def test_explain_reads_what_sqlglot_does_not_know() -> None:
    db = keyed()
    with pytest.raises(ev.EverviewError, match="line 1, column 24: a window on a table begins when a view asks"):
        db.sql("EXPLAIN SELECT id FROM a [size 300 time]")


def test_nothing_else_can_be_set() -> None:
    with pytest.raises(ev.EverviewError, match="there is no such setting"):
        ev.connect().sql("SET nonsense = 'x'")


def readers(view: ev.View, arrangement: str, *views: str) -> bool:
    """Whether a view uses an arrangement together with others."""
    return (arrangement, list(views)) in [(a["name"], a["views"]) for a in view.stats()["arrangements"]]


def test_a_wide_table_is_indexed_again_only_in_the_columns_read() -> None:
    """Unless somebody has that index of the whole table already; the same few columns are shared."""
    db = ev.connect()
    db.sql(f"CREATE TABLE wide (id int PRIMARY KEY, part int NOT NULL, {', '.join(f'c{i} int' for i in range(10))})")
    db.sql("CREATE TABLE part (id int PRIMARY KEY, size int NOT NULL)")
    row = ", ".join(["7"] * 10)
    db.sql(f"INSERT INTO wide VALUES (1, 1, {row}), (2, 1, {row}), (3, 2, {row})")
    db.sql("INSERT INTO part VALUES (1, 9), (2, 8)")
    text = "SELECT p.id, sum(w.c3) AS s FROM part p, wide w WHERE w.part = p.id {} GROUP BY p.id"
    first = db.sql(f"CREATE VIEW first AS {text.format('')}")
    second = db.sql(f"CREATE VIEW second AS {text.format('AND p.size > 8')}")
    assert readers(second, "arrange by [0]", "first", "second")  # of (part, c3)
    db.sql("CREATE VIEW whole AS SELECT p.size, w.* FROM part p, wide w WHERE w.part = p.id")
    third = db.sql(f"CREATE VIEW third AS {text.format('AND p.size > 7')}")
    assert readers(third, "arrange by [1]", "whole", "third")  # of all columns
    db.sql("DELETE FROM wide WHERE id = 1; UPDATE part SET size = 10 WHERE id = 2")
    assert sorted(first.rows()) == sorted(second.rows()) == sorted(third.rows()) == [(1, 7), (2, 7)]


def test_views_say_how_their_joins_are_kept_and_why() -> None:
    """Delta, worst-case optimal and binary alike; by shape, by indexes, because somebody asked, on shards."""
    db = keyed()
    db.sql("CREATE TABLE e (a int NOT NULL, b int NOT NULL)")
    db.sql("CREATE TABLE f (a int NOT NULL, b int NOT NULL); CREATE TABLE g (a int NOT NULL, b int NOT NULL)")
    cycle = "SELECT x.a FROM {} x, {} y, {} z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
    texts = {
        "at_once": KEYED,
        "pattern": cycle.format("e", "e", "e"),
        "tables": cycle.format("e", "f", "g"),
        "keys": "SELECT a.id FROM a, b, c WHERE a.id = b.v AND b.id = c.v AND c.id = a.v",
        "chain": "SELECT a.id FROM a, b, c WHERE a.v = b.id AND b.v = c.v",
        "asked": f"/*+ plan(binary) */ {KEYED} AND a.v < 25",
        "two": "SELECT a.id FROM a, b WHERE a.v = b.id",
    }
    views = {name: db.sql(f"CREATE VIEW {name} AS {text}") for name, text in texts.items()}
    found = {n: [line for line in v.explain().split("\n") if line.startswith("join of")] for n, v in views.items()}
    golden("how_views_join", "\n".join(f"{name}: {', '.join(lines)}" for name, lines in found.items()))
    with local_shards(shards=2) as shards:
        shards.sql("CREATE TABLE e (a int NOT NULL, b int NOT NULL)")
        said = "join of 3 inputs: wco, because it is cyclic"
        assert said in explained(shards, texts["pattern"])
        explain = shards.sql(f"CREATE VIEW v AS {texts['pattern']}").explain()
        assert said in explain and "cells of a grid on 2 shards: 2 for v0" in explain


def large_star(monkeypatch: pytest.MonkeyPatch) -> ev.Session:
    """The star, with all tables taken for large."""
    monkeypatch.setattr(compiler, "ORDER_BY_SIZE_ROWS", 0)
    return star(100)


def test_in_is_joined_where_it_cuts_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a table of the FROM, before what it makes small, however often a value is in the subquery."""
    db = large_star(monkeypatch)
    text = """
        SELECT sale.id, town FROM sale, shop WHERE sale.shop = shop.id
        AND shop.id IN (SELECT shop FROM sale WHERE amount = 6 AND item > 50) AND sale.amount IN (SELECT 3)"""
    golden("in_early", explained(db, text))
    view = db.sql(f"CREATE VIEW v AS {text}")
    shops = {i % 50 for i in range(51, 100) if i % 7 == 6}
    assert sorted(view.rows()) == [(i, f"town {i % 5}") for i in range(100) if i % 50 in shops and i % 7 == 3]
    db.sql("DELETE FROM sale WHERE amount = 6")
    assert view.rows() == []


def test_an_or_over_several_tables_filters_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    db = large_star(monkeypatch)
    text = """
        SELECT sale.id FROM sale, shop, item WHERE sale.shop = shop.id AND sale.item = item.id
        AND (town = 'town 1' AND kind = 'kind 2' OR town = 'town 2' AND kind = 'kind 1' AND amount > 3)"""
    lines = explained(db, text).split("\n")
    assert any(line.endswith("(town == 'town 1') or (town == 'town 2')") for line in lines)
    assert any(line.endswith("(kind == 'kind 2') or (kind == 'kind 1')") for line in lines)
    assert not any(": Filter[r0] amount" in line for line in lines)  # one branch says nothing about a sale alone

    def wanted(i: int) -> bool:
        return (i % 5, i % 9) == (1, 2) or ((i % 5, i % 9) == (2, 1) and i % 7 > 3)

    assert sorted(db.sql(text).rows()) == [(i,) for i in range(100) if wanted(i)]


def test_what_is_distinct_is_not_made_distinct_again() -> None:
    db = star(100)
    keyed = db.sql("CREATE VIEW k AS SELECT DISTINCT id, amount FROM sale")
    grouped = db.sql("CREATE VIEW g AS SELECT DISTINCT shop, sum(amount) AS s FROM sale GROUP BY shop")
    bag = db.sql("CREATE VIEW b AS SELECT DISTINCT amount FROM sale")
    made = [any(a["name"] == "reduce distinct" for a in v.stats()["arrangements"]) for v in (keyed, grouped, bag)]
    assert made == [False, False, True] and (len(keyed), len(grouped), len(bag)) == (100, 50, 7)


def test_one_narrow_index_for_all_joins_by_a_key_and_for_later_views() -> None:
    db = ev.connect()
    db.sql(f"CREATE TABLE wide (id int PRIMARY KEY, part int NOT NULL, {', '.join(f'c{i} int' for i in range(10))})")
    db.sql("CREATE TABLE part (id int PRIMARY KEY, size int NOT NULL)")
    row = ", ".join(str(i) for i in range(10))
    db.sql(f"INSERT INTO wide VALUES (1, 1, {row}), (2, 1, {row}), (3, 2, {row})")
    db.sql("INSERT INTO part VALUES (1, 9), (2, 8)")
    twice = "part p JOIN wide w ON w.part = p.id JOIN wide x ON x.part = p.id"
    both = db.sql(f"CREATE VIEW both_ AS SELECT p.id, w.c1, x.c2 FROM {twice}")
    later = db.sql("CREATE VIEW later AS SELECT p.size, w.c2 FROM part p JOIN wide w ON w.part = p.id")
    assert readers(later, "arrange by [0]", "both_", "later")
    indexes = [a["views"] for a in both.stats()["arrangements"] if a["name"] == "arrange by [0]"]
    assert sorted(indexes) == [["both_"], ["both_", "later"]]  # of the first join, and of the table: not two of that
    db.sql("DELETE FROM wide WHERE id = 2")
    assert sorted(both.rows()) == [(1, 1, 2), (2, 1, 2)] and sorted(later.rows()) == [(8, 2), (9, 2)]
