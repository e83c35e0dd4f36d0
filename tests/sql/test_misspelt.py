"""Every keyword, type and function name misspelt, in statements of every kind; brackets, commas and quotes left open.

Each error must have our code and no word of the parser's (`tests.sql.test_typos.complaints`), be placed at the misspelt
word, and name the word that was meant. A few words become others that mean something there (LIKE and ILIKE): hence the
shares that are asserted instead of all.

    EVERVIEW_TYPOS=5 pytest -m long tests/sql/test_misspelt.py       # five seeds, every word
"""

from __future__ import annotations

import os
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import everview as ev
from everview.sql.scalar.names import TYPE_NAMES
from everview.sql.text.call_names import AGGREGATES, OTHERS, SCALARS
from tests.sql.misspelt_statements import NAMES, SETUP, STATEMENTS
from tests.sql.test_typos import complaints


def _session() -> ev.Session:
    db = ev.connect()
    db.sql(SETUP)
    return db


def _misspelt(r: random.Random, word: str) -> Iterator[str]:
    """The word with letters swapped, left out, changed and doubled."""
    i, j = r.randrange(len(word) - 1), r.randrange(len(word))
    yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    yield word[:j] + word[j + 1 :]
    yield word[:j] + ("Q" if word.isupper() else "q") + word[j + 1 :]
    yield word[:j] + word[j] + word[j:]


def _words(text: str) -> list[re.Match[str]]:
    blank = re.sub(r"'[^']*'", lambda m: "'" + "_" * (len(m.group()) - 2) + "'", text)
    found = re.finditer(r"[A-Za-z]\w\w+", blank)
    return [m for m in found if m.group().lower() not in NAMES]


def _tried(r: random.Random, statements: list[tuple[str, re.Match[str]]]) -> Iterator[tuple[str, str, str]]:
    """(text, word, problem) of each; no problem is an empty text."""
    db = _session()
    for number, (text, place) in enumerate(statements):
        word = place.group()
        new = r.choice([w for w in _misspelt(r, word) if w != word])
        typo = text[: place.start()] + new + text[place.end() :]
        if number % 60 == 59:
            db.close()
            db = _session()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                db.sql(typo)
        except ev.EverviewError as error:
            yield typo, word, _problem(typo, place, new, error)
        else:
            db.close()
            db = _session()
            yield typo, word, "accepted"
    db.close()


def _problem(typo: str, place: re.Match[str], new: str, error: ev.EverviewError) -> str:
    bad = [*complaints(typo, error)]
    assert not bad, f"{bad}\n{typo}\n{error}"
    start = place.start()
    line, column = typo.count("\n", 0, start) + 1, start - typo.rfind("\n", 0, start)
    if (getattr(error, "line", 0), getattr(error, "column", 0)) != (line, column):
        return f"the place is not {line}, {column}: {error}"
    meant = re.search(r"did you mean '(\w+)'", error.hint)
    return "" if meant and meant[1].lower() == place.group().lower() else f"another word is meant: {error}"


def _share(found: list[tuple[str, str, str]]) -> float:
    wrong = Counter(bool(problem) for _, _, problem in found)
    return wrong[False] / len(found)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("inside")
def test_some_misspelt_keywords() -> None:
    r = random.Random(5)
    every = [(text, place) for text in STATEMENTS for place in _words(text)]
    found = [*_tried(r, r.sample(every, 200))]
    assert _share(found) > 0.95, [f for f in found if f[2]]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("inside")
def test_every_misspelt_keyword() -> None:
    every = [(text, place) for text in STATEMENTS for place in _words(text)]
    for seed in range(int(os.environ.get("EVERVIEW_TYPOS", "2"))):
        found = [*_tried(random.Random(seed), every)]
        assert _share(found) > 0.96, [f for f in found if f[2]]


def test_misspelt_types() -> None:
    r, db, found = random.Random(2), ev.connect(), 0
    named = [t for t in TYPE_NAMES if len(t) > 3 and " " not in t]
    for name in named:
        new = next(w for w in _misspelt(r, name) if w not in TYPE_NAMES)
        with pytest.raises(ev.EverviewError) as caught:
            db.sql(f"CREATE TABLE w (a int,\n  b {new} NOT NULL)")
        assert "line 2, column 5: " in caught.value.message and not [*complaints(new, caught.value)], caught.value
        found += f"did you mean {name!r}?" == caught.value.hint
    assert found > 0.8 * len(named)


def test_misspelt_functions() -> None:
    r, db, found = random.Random(4), ev.connect(), 0
    db.sql("CREATE TABLE t (a int)")
    known = {*SCALARS, *AGGREGATES, *OTHERS}
    named = r.sample(sorted(n for n in known if len(n) > 4), 120)
    for name in named:
        new = next(w for w in _misspelt(r, name) if w not in known and len(w) > 3)
        with pytest.raises(ev.EverviewError) as caught:
            db.sql(f"CREATE VIEW v AS\nSELECT a,\n  {new}(a) FROM t")
        assert "line 3, column 3: " in caught.value.message and not [*complaints(new, caught.value)], caught.value
        found += f"did you mean {name!r}?" == caught.value.hint
    assert found > 0.9 * len(named), found


@pytest.mark.parametrize(
    ("text", "place", "says", "hint"),
    [
        ("SELECT a\nFROM t\nWHRE a > 1", "line 3, column 1", "WHRE is not expected here", "did you mean 'WHERE'?"),
        ("CREATE VIEW v AS\nSELECT a FROM t\nGRUOP BY a", "line 3, column 1", "GRUOP", "did you mean 'GROUP'?"),
        ("SELECT a FROM t LETF JOIN u ON t.a = u.a", "line 1, column 17", "LETF", "did you mean 'LEFT'?"),
        ("CREATE TABLE w (LIKE t INCLUDING AL)", "line 1, column 34", "there is no INCLUDING AL", "mean 'ALL'"),
        ("CREATE TABLE w (x in)", "line 1, column 17", "the column x has no type", ""),
        ("CREATE TABLE w (ts timestamp, x itn, WATERMARK FOR ts AS ts)", "line 1, column 33", "itn", "'int'"),
        ("DROP TABEL t", "line 1, column 6", "TABEL", "did you mean 'TABLE'?"),
        ("SELECT a, FROM t", "line 1, column 9", "comma", "remove it"),
        ("SELECT (a + 1 FROM t", "line 1, column 15", "')' is missing", ""),
        ("SELECT a + 1) FROM t", "line 1, column 13", ") is not expected here", ""),
        ("SELECT a FROM t WHERE a = 'x", "line 1, column 27", "the quote ' is never closed", ""),
        ("GRANT SELECT ON t TO ann WITH GRANT OPTOIN", "line 1, column 37", "OPTION is missing", "'OPTION'"),
        ("SELECT smu(a) FROM t", "line 1, column 8", "there is no function smu", "did you mean 'sum'?"),
    ],
)
def test_what_is_wrong_and_where(text: str, place: str, says: str, hint: str) -> None:
    db = _session()
    with pytest.raises(ev.EverviewError) as caught:
        db.sql(text)
    error = caught.value
    assert f"{place}: " in error.message and says in error.message and hint in error.hint, error
    shown, caret = str(error).split("\n")[1:3]
    column = int(place.split()[-1])
    written = text.split("\n")[int(place.split()[1].rstrip(",")) - 1]
    assert caret.strip() == "^" and shown[caret.index("^")] == written[column - 1]


def test_an_alias_that_is_nearly_a_join_is_told() -> None:
    db = _session()
    with pytest.warns(ev.Notice, match="LETF is read as an alias: did you mean 'LEFT'"):
        db.sql("SELECT c FROM t LETF JOIN u USING (a)")


def test_a_column_near_a_keyword_is_not_taken_for_it() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (valu int, ordr int)")
    with pytest.raises(ev.EverviewError) as caught:
        db.sql("SELECT x.valu FROM t WHERE ordr = 1")
    assert caught.value.code == "E_TABLE" and "did you mean" not in caught.value.hint
