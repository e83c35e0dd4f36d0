"""Rewrites: random queries give the same rows with each of them on and off; before and after, as fixtures.

Fixtures are `rewrites/*.txt`: a query, its plan as written and its plan after the rewrite that the file is named after.
SQL has no loops in loops; a fixture `collection: name` is one of `COLLECTIONS`.
`EVERVIEW_REGENERATE=1 pytest tests/optimiser/test_rewrites.py` writes them again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import everview as ev
from everview.errors import EverviewError
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan.rewrites import REWRITES, simplified
from everview.session.local_shards import local_shards
from everview.session.names.plan_preparation import by_another_plan
from tests.optimiser.trimming import Spelling

FIXTURES = Path(__file__).parent / "rewrites"

COLLECTIONS: dict[str, Callable[[Collection], Collection]] = {
    "strong components": Spelling().collection,
    "both ways at once": Spelling(stages=1, starts=("ST", "ST")).collection,
    "least forwards, largest backwards, stays": Spelling(best=("min", "max")).collection,
}
"""Loops in loops over the edges (src, dst) of t."""

SCHEMA = """
CREATE TABLE t (a int NOT NULL, b int NOT NULL);
CREATE TABLE n (a int, b int);
CREATE TABLE k (a int PRIMARY KEY, b int);
"""


class Queries:
    """Random queries of two columns a and b, of tables with and without NULL and a key."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def condition(self, *names: str) -> str:
        dice = self.dice
        a, b = (dice.choice(names) for _ in range(2))
        simple = [f"{a} = {dice.randrange(4)}", f"{a} < {dice.randrange(1, 4)}", f"{a} IS NULL", f"{a} <> {b}"]
        simple += [f"{a} IN (1, 3)", "true", "1 = 2", f"{a} IS NOT NULL AND {b} > 0", f"NOT ({a} = 2)"]
        found = dice.choice(simple)
        return f"({found} {dice.choice(('OR', 'AND'))} {dice.choice(simple)})" if dice.random() < 0.3 else found

    def query(self, depth: int) -> str:
        dice = self.dice
        if depth == 0:
            return f"SELECT a, b FROM {dice.choice('tnk')}"
        below = f"({self.query(depth - 1)})"
        kind = dice.choice(
            ("where", "where", "where", "distinct", "group", "window", "set", "join", "join", "semi", "loop", "loop")
        )
        if kind == "where":
            return f"SELECT a, b FROM {below} AS q WHERE {self.condition('a', 'b')}"
        if kind == "distinct":
            return f"SELECT DISTINCT b AS a, a AS b FROM {below} AS q"
        if kind == "group":
            of = dice.choice(("min(b)", "max(b)", "sum(b)", "count(*)", "count(b)", "count(DISTINCT b)"))
            return f"SELECT a, {of} AS b FROM {below} AS q GROUP BY a"
        if kind == "window":
            of = dice.choice(("row_number()", "rank()", "max(b)"))
            return f"SELECT a, {of} OVER (PARTITION BY a ORDER BY b) AS b FROM {below} AS q"
        other = f"({self.query(dice.randrange(depth))})"
        if kind == "set":
            how = dice.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
            return f"SELECT a, b FROM {below} AS q {how} SELECT a, b FROM {other} AS o"
        if kind == "join":
            how = dice.choice(("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            on = dice.choice(("x.a = y.a", "x.b = y.a", "x.a = y.a AND x.b = y.b"))
            if how == "JOIN" and dice.random() < 0.4:
                on = f"{on} OR x.b = y.b"
            if dice.random() < 0.4:
                other = dice.choice("tnk")
            take = dice.choice(("x.a, x.b", "x.a, x.b", "x.a, y.b", "y.a, x.b"))
            where = f" WHERE {self.condition('x.a', 'x.b', 'y.a', 'y.b')}" if dice.random() < 0.5 else ""
            return f"SELECT {take} FROM {below} AS x {how} {other} AS y ON {on}{where}"
        if kind == "semi":
            test = dice.choice(("IN", "NOT IN"))
            return f"SELECT a, b FROM {below} AS q WHERE a {test} (SELECT b FROM {other} AS s WHERE b IS NOT NULL)"
        if dice.random() < 0.4:
            start = dice.choice(
                ("SELECT a, b FROM n", "SELECT a, a FROM k", "SELECT b, b FROM n UNION SELECT a, b FROM n")
            )
            of = dice.choice(("min(x.b)", "max(y.a)", "min(x.b)", "count(*)"))
            return (
                f"WITH RECURSIVE r(a, b) AS ({start} UNION SELECT r.a, n.b FROM r JOIN n ON r.b = n.a) "
                f"SELECT x.a, {of} AS b FROM r AS x JOIN r AS y ON x.a = y.b AND x.b = y.a GROUP BY x.a"
            )
        end = dice.choice(("", "", "a = 1", "b = 2", "a = 1 AND b < 3", "b IN (0, 3)", "a < 2", "b = 1 OR b = 2"))
        step = dice.choice(("t ON r.b = s.a", "t ON r.b = s.a", "n ON r.b = s.a", "r ON r.b = s.a"))
        return (
            f"WITH RECURSIVE r(a, b) AS (SELECT a, b FROM {below} AS q UNION "
            f"SELECT r.a, s.b FROM r JOIN {step.replace(' ON', ' AS s ON')}) SELECT a, b FROM r"
            f"{end and ' WHERE ' + end}"
        )


def same_generation(dice: random.Random) -> str:
    """A random recursion of which a column changes in every round, asked for constants: not trees but magic sets."""
    start = dice.choice(
        ("SELECT a, b FROM n", "SELECT a, a FROM k", "SELECT p.b, q.b FROM t AS p JOIN k AS q ON p.a = q.a")
    )
    ways = [
        "SELECT p.b, q.b FROM r JOIN {} AS p ON p.a = r.a JOIN {} AS q ON q.a = r.b",
        "SELECT p.a, q.b FROM r JOIN {} AS p ON p.b = r.a JOIN {} AS q ON q.a = r.b AND q.b <> p.a",
        "SELECT r.a, q.b FROM {} AS p JOIN r ON p.b = r.b JOIN {} AS q ON q.a = p.a WHERE r.a < 3",
        "SELECT p.b, 1 - r.b FROM r JOIN {} AS p ON p.a = r.a JOIN {} AS q ON q.a = p.b WHERE r.b IN (0, 1)",
        "SELECT r.b, p.a FROM r JOIN {} AS p ON p.b = r.a JOIN {} AS q ON q.a = r.a",
        "SELECT p.b, s.b FROM r JOIN {} AS p ON p.a = r.a JOIN r AS s ON s.a = r.b JOIN {} AS q ON q.a = s.b",
    ]
    chosen = [dice.choice((*ways[:4], *ways)).format(dice.choice("tnk"), dice.choice("tnk"))]
    if dice.random() < 0.4:
        chosen.append("SELECT p.b, r.b FROM r JOIN n AS p ON p.a = r.a")
    asked = dice.choice(("a = 1", "b = 2", "a IN (0, 3)", "a = 2 AND b = 1", "b = 0 OR b = 1", "a = 3 AND b < 2"))
    body = " UNION ".join((start, *chosen))
    return f"WITH RECURSIVE r(a, b) AS ({body}) SELECT a, b FROM r WHERE {asked}"


def loops_in_loops(dice: random.Random) -> Spelling:
    """A random spelling of what SQL cannot say: loops in a loop that trim edges."""
    stages = dice.choice((1, 2))
    selects = (dice.choice(("all", "variable")), dice.choice(("all", "first")) if stages == 2 else "")
    starts = tuple(dice.choice(("S", "T", "ST")) for _ in range(2))
    best = tuple(dice.choice(("min", "min", "max")) for _ in range(2))
    return Spelling(stages, selects, starts, best, dice.random() < 0.5, dice.random() < 0.5)  # type: ignore[arg-type]


def views(db: ev.Session, query: str | Spelling) -> dict[str, ev.View]:
    """The view of a query as it is written, with each rewrite that changes it, with all, and as a user gets it."""
    if isinstance(query, Spelling):
        t = db["t"]
        source = query.collection(t.select(src=t.a, dst=t.b))
        db.view("usual", source)
        db.view("written", source, plan="verbatim")
    else:
        db.sql(f"CREATE VIEW usual AS {query}")
        db.sql(f"/*+ plan(verbatim) */ CREATE VIEW written AS {query}")
    found = {"usual": db["usual"], "written": db["written"]}
    source = relation_of(db["written"]).source
    for name in (*REWRITES, "all"):
        node, done = simplified(relation_of(source).node, (), tuple(REWRITES) if name == "all" else (name,))
        if done:
            found[name] = db.view(name, by_another_plan(source, node), plan="verbatim")
    return found


def check(seed: int, steps: int) -> list[str]:
    """Random changes below the views of a random query: all have the same rows, and say the same changes."""
    dice = random.Random(seed)
    with ev.connect() as db:
        db.sql(SCHEMA)
        text: str | Spelling = Queries(seed).query(dice.choice((2, 3, 3, 4)))
        if seed % 12 == 11:
            text = loops_in_loops(dice)
        elif seed % 24 == 22:
            text = same_generation(dice)
        try:
            made = views(db, text)
        except EverviewError as error:
            assert error.code in ("E_UNSUPPORTED", "E_TYPE", "E_RECURSION"), (seed, text, error)
            return []
        held: dict[str, list[tuple[int | None, ...]]] = {"t": [], "n": [], "k": []}
        for _ in range(steps):
            with db.transaction():
                for _ in range(dice.randint(1, 6)):
                    name = dice.choice("tnk")
                    rows = held[name]
                    if rows and dice.random() < 0.4:
                        db[name].delete([rows.pop(dice.randrange(len(rows)))])
                        continue
                    row = tuple(dice.choice((0, 1, 2, 3, None) if name == "n" else (0, 1, 2, 3)) for _ in range(2))
                    if name == "k" and any(row[0] == r[0] for r in rows):
                        continue
                    rows.append(row)
                    db[name].insert([row])
            wanted = Counter(made["written"].rows())
            changed = Counter(made["written"].changes(db.time - 1))
            for name, view in made.items():
                assert Counter(view.rows()) == wanted, (seed, name, text)
                assert Counter(view.changes(db.time - 1)) == changed, (seed, name, text)
        return [name for name in made if name not in ("usual", "written")]


def test_random_queries() -> None:
    found = Counter(name for seed in range(12) for name in check(seed, 5))
    assert set(found) >= {"filters", "constants", "groups", "all"}, found


def test_random_recursions_asked_for_constants() -> None:
    found = Counter(name for seed in range(22, 40 * 24, 24) for name in check(seed, 6))
    assert found["magic"] >= 8, found


@pytest.mark.slow
@pytest.mark.long
def test_many_random_queries() -> None:
    first, count = int(os.environ.get("EVERVIEW_SEED", "1000")), int(os.environ.get("EVERVIEW_QUERIES", "600"))
    found = Counter(name for seed in range(first, first + count) for name in check(seed, 12))
    assert set(found) == {*REWRITES, "all"}, found


def plans(query: str, rewrite: str) -> tuple[str, str]:
    """A query's plan as it is written, and after one rewrite."""
    with ev.connect() as db:
        db.sql(SCHEMA)
        if query.startswith("collection: "):
            t = db["t"]
            source = COLLECTIONS[query.removeprefix("collection: ")](t.select(src=t.a, dst=t.b))
        else:
            db.sql(f"/*+ plan(verbatim) */ CREATE VIEW v AS {query}")
            source = relation_of(db["v"]).source
        node, _ = simplified(relation_of(source).node, (), (rewrite,))
        return str(source.explain()), str(by_another_plan(source, node).explain())


def fixtures() -> list[tuple[str, str, str, str]]:
    """(rewrite, query, before, after)"""
    found = []
    for path in sorted(FIXTURES.glob("*.txt")):
        for block in path.read_text().split("\n====\n"):
            query, _, rest = block.partition("\n-- before\n")
            before, _, after = rest.partition("\n-- after\n")
            found.append((path.stem, query.strip(), before.strip(), after.strip()))
    return found


@pytest.mark.parametrize(("rewrite", "query", "before", "after"), fixtures())
def test_before_and_after(rewrite: str, query: str, before: str, after: str) -> None:
    assert plans(query, rewrite) == (before, after)
    assert before != after or "stays" in query


def test_every_rewrite_has_fixtures() -> None:
    assert {rewrite for rewrite, *_ in fixtures()} == set(REWRITES)


def regenerate() -> None:
    for path in FIXTURES.glob("*.txt"):
        blocks = []
        for block in path.read_text().split("\n====\n"):
            query = block.partition("\n-- before\n")[0].strip()
            before, after = plans(query, path.stem)
            blocks.append(f"{query}\n-- before\n{before}\n-- after\n{after}")
        path.write_text("\n====\n".join(blocks) + "\n")


def test_what_another_view_keeps_is_shared() -> None:
    """A condition on an aggregate that is kept already is tested above it."""
    with ev.connect() as db:
        db.sql(SCHEMA)
        db.sql("CREATE VIEW totals AS SELECT a, sum(b) AS s FROM t GROUP BY a")
        assert "Filter[r2] a == 3" in db.sql("CREATE VIEW one AS SELECT a, s FROM totals WHERE a = 3").explain()


def test_a_view_depends_on_what_it_was_written_with() -> None:
    with ev.connect() as db:
        db.sql(SCHEMA)
        view = db.sql("CREATE VIEW v AS SELECT t.a FROM t LEFT JOIN k ON t.b = k.a")
        assert "rewrite outer" in view.explain()
        with pytest.raises(EverviewError):
            db.sql("DROP TABLE k")


def test_verbatim_rewrites_nothing() -> None:
    with ev.connect() as db:
        db.sql(SCHEMA)
        db.sql("SET plan = 'verbatim'")
        text = db.sql(
            "CREATE VIEW v AS SELECT a, s FROM (SELECT a, sum(b) AS s FROM t GROUP BY a) q WHERE a = 3"
        ).explain()
        assert "Reduce[r0]" in text and "rewrite" not in text


def test_magic_sets_in_shards() -> None:
    query, found = LOOPS["magic"].replace("= 3", "= 6"), []
    rows = [(i // 2, i) for i in range(2, 30)]
    for db, hint in ((ev.connect(), "verbatim"), (ev.connect(), "binary"), (local_shards(3), "binary")):
        with db:
            t = db.table("t", {"a": int, "b": int})
            t.insert(rows[:20])
            view = db.sql(f"/*+ plan({hint}) */ CREATE VIEW v AS {query}")
            t.insert(rows[20:])
            t.delete([(2, 4)])
            assert ("rewrite magic" in view.explain()) == (hint == "binary")
            found.append(Counter(view.rows()))
    assert found[0] == found[1] == found[2] != Counter()


LOOPS = {
    "narrowed": "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM t UNION SELECT r.a, t.b FROM r JOIN t ON t.a = r.b) "
    "SELECT b FROM r WHERE a = 3",
    "backwards": "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM t UNION SELECT r.a, t.b FROM r JOIN t ON t.a = r.b) "
    "SELECT a FROM r WHERE b = 3",
    "linear": "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM t UNION SELECT r.a, s.b FROM r JOIN r AS s ON s.a = r.b) "
    "SELECT b FROM r WHERE a = 3",
    "magic": "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM t UNION SELECT p.b, q.b FROM r JOIN t AS p ON p.a = r.a "
    "JOIN t AS q ON q.a = r.b) SELECT b FROM r WHERE a = 3",
    "strong": "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM t UNION SELECT r.a, t.b FROM r JOIN t ON t.a = r.b) "
    "SELECT x.a, min(x.b) AS least FROM r AS x JOIN r AS y ON x.a = y.b AND x.b = y.a GROUP BY x.a",
}


@pytest.mark.parametrize("rewrite", LOOPS)
def test_rounds_keeps_loops_as_they_are_written(rewrite: str) -> None:
    with ev.connect() as db:
        db.sql(SCHEMA)
        db["t"].insert([(a, (a * 3 + 1) % 7) for a in range(7)])
        rounds = db.sql(f"/*+ plan(rounds) */ CREATE VIEW rounds AS {LOOPS[rewrite]}")
        verbatim = db.sql(f"/*+ plan(verbatim) */ CREATE VIEW verbatim AS {LOOPS[rewrite]}")
        assert "rewrite" not in rounds.explain()
        assert rounds.explain().split("arrangements:")[0] == verbatim.explain().split("arrangements:")[0]
        rows = sorted(rounds.rows())
        assert rows == sorted(verbatim.rows())
    with ev.connect() as db:  # or it would share the others' loop
        db.sql(SCHEMA)
        db["t"].insert([(a, (a * 3 + 1) % 7) for a in range(7)])
        usual = db.sql(f"CREATE VIEW usual AS {LOOPS[rewrite]}")
        assert rewrite == "narrowed" or f"rewrite {rewrite}" in usual.explain()
        assert sorted(usual.rows()) == rows


if os.environ.get("EVERVIEW_REGENERATE"):
    regenerate()
