"""What people try in their first hour: the mistakes they make, and how things look when they are printed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import everview as ev
from everview import col
from everview.language import hints
from everview.notebook import live as live_table
from everview.sql.text.keywords import KINDS


@pytest.fixture
def db() -> Any:
    session: Any = ev.connect()
    t = session.table("t", {"x": int, "y": str})
    t.insert([(1, "a"), (2, "b")])
    return session


def said(action: Callable[[], Any], kind: type[Exception] = ev.EverviewError) -> str:
    with pytest.raises(kind) as caught:
        action()
    assert isinstance(caught.value, ev.EverviewError)
    return str(caught.value)


def _called(what: Any, name: str) -> Any:
    return getattr(what, name)()


@pytest.mark.parametrize(
    ("statement", "place", "hint"),
    [
        ("CREATE VEIW v AS SELECT x FROM t", "column 8", "did you mean 'VIEW'?"),
        ("CREATE OR REPLACE TABEL v (x int)", "column 19", "did you mean 'TABLE'?"),
        ("CREATE ZEBRA z", "column 8", f"CREATE is followed by {', '.join(KINDS)}"),
        ("SELCT x FROM t", "column 1", "did you mean 'SELECT'?"),
        ("INSRT INTO t VALUES (1, 'a')", "column 1", "did you mean 'INSERT'?"),
        ("CREATE SOURCE s FROM 'x.log' FORMAT jsno", "column 37", "did you mean 'json'?"),
        ("CREATE SOURCE s FROM 'x.log' FORMAT xml", "column 37", "available: 'csv', 'json', 'parquet', 'arrow'"),
    ],
)
def test_misspelt_words_of_sql(db: Any, statement: str, place: str, hint: str) -> None:
    text = said(lambda: db.sql(statement))
    assert place in text and text.endswith(f"hint: {hint}")
    assert statement in text and "^" in text


def test_rows_of_a_query_that_is_not_kept(db: Any) -> None:
    query = db["t"].filter(col.x > 1)
    for action in (lambda: list(query), lambda: len(query), lambda: (1, "a") in query):
        assert 'db.view("name", c)' in said(action)
    for name in sorted(hints.READING):
        assert f"v.{name}(" in said(partial(_called, query, name), AttributeError)
    assert "change the tables" in said(lambda: query.insert([(1, "a")]), AttributeError)
    assert not hasattr(query, "rows") and bool(query)


def test_what_queries_lack_is_what_tables_and_views_have() -> None:
    def public(cls: type) -> set[str]:
        return {n for n in dir(cls) if not n.startswith("_")}

    more = (public(ev.View) | public(ev.Table)) - public(ev.Collection)
    assert more - {"drop"} == hints.READING | hints.CHANGING


def test_indexing_says_what_to_write(db: Any) -> None:
    t = db["t"]
    assert "t.filter(t.x > 1)" in said(lambda: t[t.x > 1])
    assert "t.select('x', 'y')" in said(lambda: t[["x", "y"]])
    assert "t.select('x', 'y')" in said(lambda: t["x", "y"])
    assert "head" in said(lambda: t[0]) and "head" in said(lambda: t[:5])
    assert "names" in said(lambda: t[None])


def test_names_of_other_libraries(db: Any) -> None:
    t = db["t"]
    assert "c.filter(" in said(lambda: t.where(t.x > 1))
    assert "c.group_by(" in said(lambda: t.groupby("x"))
    assert "top(" in said(lambda: t.sort_values("x"))
    assert "did you mean 'select'?" in said(lambda: t.selct("x"))
    assert "columns: 'x', 'y'" in said(lambda: t.zzz)


def test_parameters_go_to_prepare(db: Any) -> None:
    for action in (lambda: db.sql("SELECT x FROM t WHERE x = $1", 1), lambda: db.sql("SELECT $x", x=1)):
        assert "db.prepare" in said(action)


@pytest.mark.parametrize(
    ("rules", "hint"),
    [
        ("p(x) :- t(x, y).", "capital letter: X"),
        ("p(x) :- names(x).", "capital letter: X"),
        ("p(X) :- t(X, y), t(y, X).", "capital letter: Y"),
    ],
)
def test_small_variables_of_datalog(db: Any, rules: str, hint: str) -> None:
    db.table("names", {"name": str})
    assert hint in said(lambda: db.datalog(rules))


def test_strings_of_datalog_stay_strings(db: Any) -> None:
    rules = db.datalog('p(X) :- t(X, a). q("a") :- t(_, "a"). r(a, X) :- t(X, a).')
    assert (rules.p.rows(), rules.q.rows(), rules.r.rows()) == ([(1,)], [("a",)], [("a", 1)])


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"sep": ";"}, "delimiter=';'"),
        ({"delimeter": ";"}, "did you mean 'delimiter'?"),
        ({"names": ["a"]}, "header=['a']"),
        ({"dtype": int}, "schema="),
        ({"zzz": 1}, "available: 'delimiter'"),
    ],
)
def test_options_of_files(options: dict[str, Any], hint: str) -> None:
    files: Any = ev.io
    assert hint in said(lambda: files.csv("x.csv", **options))
    assert "order" in said(lambda: files.parquet("x", ordr="name"))
    assert "path" in said(lambda: files.json())


# how things look


def test_printing_a_view_or_table(db: Any) -> None:
    total = db.view("total", db["t"].group_by("y").agg(sum=col.x.sum()))
    db["t"].insert([(1000, "a")])
    lines = str(total).splitlines()
    assert lines[:4] == ["view total: 2 rows at time 2", "y     sum", "str   int", "---  ----"]
    assert sorted(lines[4:]) == ["a    1001", "b       2"]
    assert str(db["t"]).startswith("table t: 3 rows at time 2\n")
    assert repr(total) == "Collection(y str, sum int)"


def test_printing_many_rows_nulls_and_odd_texts(db: Any) -> None:
    t = db.table("odd", {"n": int | None, "s": str})
    t.insert([(i, "x" * 200) for i in range(50)])
    t.insert([(None, "two\nlines")])
    lines = str(t).splitlines()
    assert lines[-1] == "... and 31 more" and len(lines) == 25 and max(map(len, lines)) < 80
    t.delete([(i, "x" * 200) for i in range(50)])
    assert str(t).splitlines()[-1].split("  ") == ["NULL", "two\\nlines"]


def test_printing_a_view_that_cannot_be_read(db: Any) -> None:
    bad = db.view("bad", db["t"].select(z=1 // (col.x - 1)))
    assert "view bad (z int)" in str(bad) and "division by zero" in str(bad)
    bad.drop()
    assert "was dropped" in str(bad)


def test_a_result_in_a_notebook(db: Any) -> None:
    page = db.sql("SELECT x, y || '<' AS z FROM t ORDER BY x")._repr_html_()
    assert "<td>1</td>" in page and "a&lt;" in page and "2 rows" in page


def test_head_limit_show_count(db: Any, capsys: pytest.CaptureFixture[str]) -> None:
    t = db["t"]
    t.insert([(1, "a")])
    assert t.head(2) == [(1, "a"), (1, "a")] and t.head(0) == [] and len(t.head()) == 3
    assert t.count() == len(t) == 3 and list(t) == t.rows() and (2, "b") in t
    v = db.view("v", t.limit(2))
    assert v.rows() == [(1, "a"), (1, "a")]
    t.delete([(1, "a")])
    assert sorted(v) == [(1, "a"), (2, "b")]
    v.show(1)
    assert capsys.readouterr().out.splitlines()[-1] == "... and 1 more"
    for wrong in (-1, 1.5, "3", True):
        assert "E_TYPE" in said(partial(t.head, wrong))


def test_other_libraries_take_a_view_as_it_is(db: Any) -> None:
    assert sorted(pl.DataFrame(db["t"]).rows()) == [(1, "a"), (2, "b")]
    u = db.table("u", {"x": int, "y": str})
    u.insert(db["t"])
    assert sorted(u) == sorted(db["t"])


# tables made of data


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"k": [1, 2], "s": ["a", None]}),
        pl.DataFrame({"k": [1, 2], "s": ["a", None]}),
        pa.table({"k": [1, 2], "s": ["a", None]}),
        [{"k": 1, "s": "a"}, {"k": 2, "s": None}],
        {"k": [1, 2], "s": ["a", None]},
        {"k": np.array([1, 2]), "s": pd.Series(["a", None])},
    ],
    ids=["pandas", "polars", "arrow", "dicts", "columns", "arrays"],
)
def test_a_table_of_data(data: Any) -> None:
    db: Any = ev.connect()
    t = db.table("t", data, key="k")
    assert sorted(t) == [(1, "a"), (2, None)]
    assert [repr(c) for c in t.schema().values()] == ["int", "str?"]


def test_data_that_makes_no_table_leaves_none() -> None:
    db: Any = ev.connect()
    for data in ([(1, 2)], 5, None, [], {"x": [1, "a"]}, pd.DataFrame({"k": [1, 1]})):
        assert "E_" in said(partial(db.table, "t", data, key="k"))
        assert db.tables == ()


def test_reading_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "2 fruits.csv").write_text("name;n\nfig;12\npear;3\n")
    db: Any = ev.connect()
    t = db.read(tmp_path / "2 fruits.csv", key="name")
    assert db.tables == ("t2_fruits",) and sorted(t) == [("fig", 12), ("pear", 3)]
    assert "';'" in capsys.readouterr().err
    with pytest.raises(ev.InputError, match="E_NO_SOURCE"):
        db.run(until="caught_up")
    other = db.read(ev.io.csv(tmp_path / "2 fruits.csv", delimiter=";"), "other", schema={"name": str, "n": float})
    assert sorted(other) == [("fig", 12.0), ("pear", 3.0)] and capsys.readouterr().err == ""
    assert "E_" in said(lambda: db.read(tmp_path / "none.csv"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_told_file_by_file(tmp_path: Path, delimiter: str) -> None:
    (tmp_path / "a.csv").write_text(delimiter.join(["a", '"b,;|"']) + "\n" + delimiter.join(["1", "2"]) + "\n")
    (tmp_path / "b.csv").write_text('a,"b,;|"\n3,4\n')
    db: Any = ev.connect()
    t = db.source("t", ev.io.csv(tmp_path, order="name"))
    db.run(until="caught_up")
    assert list(t.schema()) == ["a", "b,;|"] and sorted(t) == [(1, 2), (3, 4)]


def test_options_and_groups_that_are_not_complete_say_what_is_missing() -> None:
    db: Any = ev.connect()
    t = db.table("t", {"x": int})
    assert "no option 'histroy'" in said(lambda: ev.connect(histroy=3)) and "'history'" in said(
        lambda: ev.connect(histroy=3)
    )
    assert "everview.connect(directory, sync=...)" in said(lambda: ev.connect(sync="full"))
    assert ".agg(" in said(lambda: db.view("v", t.group_by("x")))
    assert "build one from db.table" in said(lambda: db.view("v", 3))


def test_a_table_that_is_shown_whole_is_in_order() -> None:
    db: Any = ev.connect()
    t = db.table("t", {"name": str, "n": int | None})
    t.insert([("pear", 3), ("fig", None), ("fig", 12), ("東京", 1)])
    assert str(t).split("\n")[4:] == ["fig     12", "fig   NULL", "pear     3", "東京     1"]


# keys


def test_insert_is_not_upsert_in_python_and_sql() -> None:
    db: Any = ev.connect()
    t = db.table("t", {"k": int, "v": int}, key="k")
    t.insert([(1, 1), (2, 2)])
    for action in (
        lambda: t.insert([(3, 3), (1, 9)]),
        lambda: t.insert([(3, 3), (3, 4)]),
        lambda: db.sql("INSERT INTO t VALUES (3, 3), (1, 9)"),
    ):
        assert "E_KEY" in said(action)
        assert sorted(t) == [(1, 1), (2, 2)]
    t.upsert([(1, 9), (3, 3), (3, 4)])
    db.sql("INSERT OR REPLACE INTO t VALUES (2, 8)")
    assert sorted(t) == [(1, 9), (2, 8), (3, 4)]
    with db.transaction():
        t.delete(keys=[1])
        t.insert([(1, 0)])
    assert sorted(t) == [(1, 0), (2, 8), (3, 4)]
    t.insert({"k": list(range(10, 100)), "v": list(range(90))})
    assert t.count() == 93


def test_deleting_by_key() -> None:
    db: Any = ev.connect()
    t = db.table("t", {"a": str, "v": float, "b": int}, key=["b", "a"])
    t.insert([("x", 0.5, 1), ("x", 1.5, 2), ("y", 2.5, 1)])
    t.delete(keys=[(1, "x"), (1, "x"), (2, "x")])
    assert t.rows() == [("y", 2.5, 1)]
    assert "no row with the key 7, 'y'" in said(lambda: t.delete(keys=[(1, "y"), (7, "y")]))
    assert t.count() == 1
    for wrong in (["y"], [(1, "y", 2)], [("y", 1)], "y", 5):
        assert "E_" in said(partial(t.delete, keys=wrong))
    assert "E_TYPE" in said(lambda: t.delete())
    t.delete(keys=[])
    assert "E_NO_KEY" in said(lambda: db.table("u", {"x": int}).delete(keys=[1]))


# following tables


def test_changes_and_subscribers_of_tables() -> None:
    db: Any = ev.connect()
    t = db.table("t", {"k": int, "v": int}, key="k")
    t.insert([(1, 1)])
    heard: list[Any] = []
    stop = t.subscribe(lambda batch: heard.append((batch.time, sorted(batch.rows()))))
    with db.transaction():
        t.upsert([(1, 2)])
        t.insert([(2, 2)])
    change = [((1, 1), -1), ((1, 2), 1), ((2, 2), 1)]
    assert heard == [(1, [((1, 1), 1)]), (2, change)]
    assert sorted(t.changes(since=1)) == sorted((row, 2, n) for row, n in change)
    assert len(t.changes(since=0)) == 4
    stop()
    t.delete(keys=[2])
    assert len(heard) == 2
    again = db.sql("SUBSCRIBE TO t WITHOUT SNAPSHOT")
    t.delete(keys=[1])
    assert [b.rows() for b in again] == [[((1, 2), -1)]]
    t.drop()


def test_changes_of_a_table_that_was_opened_again(tmp_path: Path) -> None:
    db: Any
    with ev.connect(tmp_path / "d") as db:
        t = db.table("t", {"x": int})
        t.insert([(1,)])
        t.insert([(2,)])
    with ev.connect(tmp_path / "d") as db:
        t = db["t"]
        t.insert([(3,)])
        assert t.changes(since=2) == [((3,), 3, 1)]


def test_plans_and_measures_print_well(db: Any) -> None:
    v = db.view("v", db["t"].distinct())
    assert repr(v.explain()) == str(v.explain()) and "\n" in repr(v.explain())
    assert v.explain()._repr_html_().startswith('<pre style="font-family:monospace">r0 := ')
    assert repr(db["t"].explain()) == "r0 := Table t (x int, y str)"
    lines = str(v.stats()).splitlines()
    assert lines[0].startswith("name v, time 1, rows 2, bytes ") and "updates" in lines[2] and len(lines) > 4
    assert "<table" in v.stats()._repr_html_() and "bytes" in v.stats()._repr_html_()
    assert v.stats()["rows"] == 2 and isinstance(db.stats(), dict) and "operators" in str(db.stats())


# notebooks


class Shell:
    """As much of IPython as notebooks need."""

    kernel = object()

    def __init__(self) -> None:
        self.pages: list[str] = []

    def display(self, page: Any, display_id: bool = False) -> Any:
        self.pages.append(getattr(page, "data", page))
        return self

    def update(self, page: Any) -> None:
        self.pages.append(page.data)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Shell:
    import sys
    import types

    shell = Shell()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    pages = types.ModuleType("IPython.display")
    pages.display = shell.display  # type: ignore[attr-defined]
    pages.HTML = lambda data: types.SimpleNamespace(data=data)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", pages)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    return shell


def test_a_live_view_in_a_notebook(db: Any, notebook: Shell) -> None:
    v = db.view("v", db["t"].distinct())
    live = live_table(v, rows=2)
    drawn = len(notebook.pages)
    live._ipython_display_()  # what a notebook calls for a cell's last value: the table is there already
    assert (repr(live), len(notebook.pages)) == ("<live view v>", drawn)
    assert "view v: 2 rows at time 1" in notebook.pages[-1]
    for x in range(10, 60):
        db["t"].insert([(x, "c")])
    live.stop()
    assert "view v: 52 rows at time 51" in notebook.pages[-1] and "... and 50 more" in notebook.pages[-1]
    assert len(notebook.pages) < 40  # not each change is drawn
    db["t"].insert([(99, "c")])
    assert "time 51" in notebook.pages[-1]


def test_a_live_view_is_a_widget_where_there_are_some(
    db: Any, notebook: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    import types

    made = types.ModuleType("anywidget")
    made.AnyWidget = type("AnyWidget", (), {})  # type: ignore[attr-defined]
    traits = types.ModuleType("traitlets")
    traits.Unicode = lambda text: types.SimpleNamespace(tag=lambda sync: text)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "anywidget", made)
    monkeypatch.setitem(sys.modules, "traitlets", traits)
    live = live_table(db["t"])
    assert notebook.pages == [live.widget] and "table t: 2 rows" in live.widget.page
    db["t"].insert([(3, "c")])
    live.stop()
    assert "table t: 3 rows" in live.widget.page


def test_a_run_shows_how_far_it_is_in_a_notebook(notebook: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    db: Any = ev.connect()
    db.source("t", ev.io.rows([(1,), (2,)]), schema={"x": int})
    db.run(until="caught_up")
    assert "t 2" in notebook.pages[-1] and capsys.readouterr().err == ""


def test_aggregates_without_a_name(db: Any) -> None:
    t = db.table("sold", {"k": str, "x": int})
    for query in (t, t.group_by("k")):
        with pytest.raises(ev.PlanError, match=r"(?s)E_NAME.*agg\(total=col.x.sum\(\)\)"):
            query.agg(col.x.sum())


def test_a_view_of_a_text(db: Any) -> None:
    with pytest.raises(ev.InputError, match=r"(?s)E_TYPE.*CREATE VIEW name AS SELECT"):
        db.view("v", "SELECT 1 AS x")


def test_a_time_to_live_in_words(db: Any) -> None:
    """As everywhere that a duration is asked for; only a timedelta was taken."""
    seen = db.table("seen", {"who": str}, ttl="5 minutes")
    db.advance(dt.datetime(2030, 1, 31, 12, 0))
    seen.insert([("Ann",)])
    db.advance(dt.datetime(2030, 1, 31, 12, 4))
    assert seen.rows() == [("Ann",)]
    db.advance(dt.datetime(2030, 1, 31, 12, 5))
    assert seen.rows() == []
    assert "E_DURATION" in said(lambda: db.table("other", {"x": int}, ttl="soon"))
    assert '"10 minutes"' in said(lambda: db.table("other", {"x": int}, ttl=[5]))


def test_a_notebook_shows_the_users_lines(db: Any) -> None:
    """Below them were fourteen frames of this package."""
    with pytest.raises(ev.EverviewError) as caught:
        db.sql("SELCT 1")
    shown = "\n".join(caught.value._render_traceback_())
    assert 'db.sql("SELCT 1")' in shown and shown.endswith("hint: did you mean 'SELECT'?")
    assert "statements.py" not in shown and shown.count("File ") == 1
    with pytest.raises(ev.InternalError) as ours:
        raise ev.InternalError("E_INTERNAL", "an invariant is broken")
    assert "Traceback" in "".join(ours.value._render_traceback_())
