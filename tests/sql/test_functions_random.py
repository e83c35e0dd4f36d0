"""Random queries that mix functions, aggregates and table functions, over random changes, against two oracles.

A query is made of typed parts (`GRAMMAR`): each line says what it gives, whether DuckDB means the same by it (`*`), and
how it is written. All are total: no row fails. Queries are installed as views; then random inserts, updates and deletes
run as transactions here and in PostgreSQL (or DuckDB), and after each the answers are compared.

What differs by dialect is not asked of DuckDB (lines without `*`): to_char, format, date_bin, regexp_count, `#`, `~`,
initcap, integer division, concat_ws of numbers, mode and medians of ties, every, width_bucket, and what it has not.
cbrt makes DuckDB 2.0.0 fail with an internal error.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres

COLUMNS = (
    "id int PRIMARY KEY, i int, j int, x double precision, y double precision, s text, t text, d date, m timestamp, "
    "b boolean"
)

# I int, X float, T text, D date, M timestamp, B bool; * if DuckDB means the same
GRAMMAR = r"""
I* i
I* j
I* 3
I* -2
I* length(T)
I* coalesce(I, 0)
I* CASE WHEN B THEN I ELSE I END
I* I + I
I* I - I
I* abs(I)
I* sign(I)::int
I* I & I
I* I | I
I  I # I
I  ~I
I* gcd(I, I)
I  I / 3
I* I % 7
I* strpos(T, 'a')
I  regexp_count(T, '[a-c]')
I  regexp_instr(T, 'b')
I* bit_length(T)
I  octet_length(T)
I  ascii(T)
I  width_bucket(X, -10, 10, 5)
I* extract(week FROM D)::int
I* extract(doy FROM D)::int
I* extract(isoyear FROM M)::int
I  num_nulls(I, T, D)
I* date_part('month', M)::int
X* x
X* y
X* X + X
X* abs(X)
X* trunc(X)
X  cbrt(X)
X* sin(X)
X* atan2(X, X)
X* degrees(X)
X* sqrt(abs(X))
X* greatest(X, X)
X* coalesce(X, 1.5::double precision)
X* CASE WHEN B THEN X ELSE X END
X* I::double precision
T* s
T* t
T* 'abc'
T* upper(T)
T* lower(T)
T  initcap(T)
T* reverse(T)
T* repeat(T, 2)
T* left(T, 2)
T* left(T, -1)
T* right(T, 2)
T* right(T, -1)
T* lpad(T, 4, '*')
T* rpad(T, 3, 'xy')
T  translate(T, 'abc', 'xy')
T* replace(T, 'a', 'bb')
T* split_part(T, 'b', 1)
T  split_part(T, 'a', -1)
T* regexp_replace(T, '[ab]', '-', 'g')
T* regexp_replace(T, '(.)b', '<\1>')
T  regexp_substr(T, '[b-z]+')
T* substring(T, 2, 3)
T  overlay(T placing 'zz' from 1 for 1)
T* md5(T)
T* concat_ws('-', T, T)
T  concat_ws('+', T, I, D)
T  concat(T, I, B)
T* T || T
T* coalesce(T, 'none')
T  to_char(D, 'YYYY-MM-DD Dy FMMonth DDth')
T  to_char(M, 'HH24:MI:SS IW Q am')
T  to_char(I, 'S0009')
T  to_hex(abs(I))
T* trim(both 'a' from T)
T  format('%s/%s', T, I)
T  quote_literal(T)
T  quote_nullable(T)
T* chr((65 + abs(I) % 26)::int)
T* CASE WHEN B THEN T ELSE T END
T* nullif(T, 'a')
T  age(M, D::timestamp)::text
T  justify_interval(age(M, M) + make_interval(days => I, hours => I))::text
T  array_to_string(regexp_match(T, '(a)(.)'), '|')
T  array_to_string(regexp_split_to_array(T, 'b'), '|')
D* d
D* make_date(2020 + (abs(I) % 5)::int, 1 + (abs(I) % 12)::int, 1 + (abs(I) % 28)::int)
D* D + (I % 10)::int
D  to_date(to_char(D, 'DD/MM/YYYY'), 'DD/MM/YYYY')
D* greatest(D, D)
M* m
M* date_trunc('month', M)
M* date_trunc('hour', M)
M  date_bin('3 hours', M, timestamp '2001-01-01')
M* D::timestamp
M  date_bin(make_interval(hours => 1 + abs(I) % 5), M, timestamp '2001-01-01')
M* make_timestamp(2020 + abs(I) % 5, 2, 3, (abs(I) % 24)::int, 5, 6.5::double precision)
B* b
B  T ~ '[ab]'
B  T ~* 'B'
B  T !~ '^a'
B  regexp_like(T, 'b', 'i')
B* T LIKE 'a%'
B* starts_with(T, 'a')
B  T SIMILAR TO '%(a|b)%'
B* I > I
B* T < T
B* X >= X
B* D < D
B* M > D::timestamp
B* B AND B
B* B OR B
B* NOT B
B* T IS NOT NULL
"""

# the same for aggregates; over ints, so that nothing hangs on the last digit of a float
AGGREGATES = r"""
I* count(*)
I* count(T)
I* count(DISTINCT T)
I* min(I)
I* max(I)
T* min(T)
D* max(D)
I* bit_and(I)
I* bit_or(I)
I* bit_xor(I)
B  every(B)
B* bool_or(B)
X  percentile_cont(0.3) WITHIN GROUP (ORDER BY I)
I* percentile_disc(0.5) WITHIN GROUP (ORDER BY I)
T  percentile_disc(0.7) WITHIN GROUP (ORDER BY T DESC)
T  mode() WITHIN GROUP (ORDER BY T)
X  corr(i, j)
X* covar_pop(i, j)
X  covar_samp(i, j)
X  regr_slope(i, j)
X  regr_intercept(i, j)
I* regr_count(I, I)
X  regr_r2(i, j)
X* stddev_pop(i)
T* string_agg(s, ',' ORDER BY s)
I* count(*) FILTER (WHERE B)
I  percentile_disc(0.5) WITHIN GROUP (ORDER BY I) FILTER (WHERE B)
"""

# a column of the table function, where it stands, and whether DuckDB has it
UNFOLDED = (
    ("n", "I", "generate_series(1, (abs({I}) % 4)::int) AS g(n)", False),
    ("n", "I", "generate_series({I}, 3, 2) WITH ORDINALITY AS g(o, n)", False),
    ("n", "I", "unnest(ARRAY[{I}, {I}, NULL]) AS g(n)", False),
    ("p", "T", "string_to_table({T}, 'b') AS g(p)", False),
    ("p", "T", "regexp_split_to_table({T}, '[ab]') AS g(p)", False),
    ("n", "I", "generate_series(1, 3) AS g(n)", True),
)


def _lines(text: str, duck: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.strip().split("\n"):
        if not duck or line[1] == "*":
            found.setdefault(line[0], []).append(line[2:].strip())
    return found


class Queries:
    """Random queries, each with the types of its columns."""

    def __init__(self, seed: int, duck: bool) -> None:
        self.random = random.Random(seed)
        self.duck = duck
        self.scalars, self.aggregates = _lines(GRAMMAR, duck), _lines(AGGREGATES, duck)

    def filled(self, template: str, depth: int) -> str:
        """A line with random parts for its capital letters."""
        result, quoted = [], False
        for k, letter in enumerate(template):
            quoted ^= letter == "'"
            beside = template[k - 1 : k] + template[k + 1 : k + 2]
            alone = not any(c.isalnum() or c == "_" for c in beside)
            if not quoted and alone and letter in "IXTDMB":
                result.append(self.scalar(letter, depth - 1))
            else:
                result.append(letter)
        return "".join(result)

    def scalar(self, kind: str, depth: int) -> str:
        lines = self.scalars[kind]
        if depth <= 0:
            lines = [line for line in lines if line.islower() and "(" not in line and " " not in line] or lines[:2]
        return f"({self.filled(self.random.choice(lines), depth)})"

    def query(self) -> tuple[str, str]:
        """A query, and the types of its columns."""
        form = self.random.choice(["rows", "rows", "groups", "groups", "unfolded"])
        kinds = "".join(self.random.choices("IXTDMB", k=3))
        items = [self.scalar(k, 3) for k in kinds]
        if form == "groups":
            key = self.random.choice("ITDB")
            every = [(k, line) for k, lines in self.aggregates.items() for line in lines]
            made = [self.random.choice(every) for _ in kinds]
            outputs = ", ".join(f"{self.filled(line, 2)} AS c{n}" for n, (_, line) in enumerate(made))
            having = f" HAVING count(*) > {self.random.randint(0, 2)}" if self.random.random() < 0.3 else ""
            text = f"SELECT {self.scalar(key, 2)} AS k, {outputs} FROM f GROUP BY 1{having}"
            return text, key + "".join(k for k, _ in made)
        outputs = ", ".join(f"{item} AS c{n}" for n, item in enumerate(items))
        if form == "unfolded":
            chosen = [u for u in UNFOLDED if u[3] or not self.duck]
            column, kind, call, _ = self.random.choice(chosen)
            call = call.replace("{I}", self.scalar("I", 1)).replace("{T}", self.scalar("T", 1))
            return f"SELECT id, {column}, {outputs} FROM f, {call} WHERE {self.scalar('B', 2)}", f"I{kind}{kinds}"
        return f"SELECT id, {outputs} FROM f WHERE {self.scalar('B', 2)} OR id > 5", f"I{kinds}"

    # changes

    def row(self, id_: int) -> str:
        r = self.random
        values = [
            str(r.randint(-9, 9)),
            str(r.randint(0, 6)),
            f"{r.choice([-7.25, -1.5, 0.0, 0.5, 2.0, 9.75])}::double precision",
            f"{r.choice([-3.5, 1.0, 4.25])}::double precision",
            f"'{r.choice(['', 'a', 'ab', 'abc', 'Bab', 'xyz', 'b a'])}'",
            f"'{r.choice(['a', 'b', 'cab', 'Zoo'])}'",
            f"date '{dt.date(2023, 12, 1) + dt.timedelta(days=r.randint(0, 800))}'",
            f"timestamp '{dt.datetime(2024, 1, 1) + dt.timedelta(minutes=r.randint(0, 900_000))}'",
            r.choice(["true", "false"]),
        ]
        return ", ".join([str(id_), *("NULL" if r.random() < 0.2 else v for v in values)])

    def changes(self, there: set[int]) -> list[str]:
        """The statements of one transaction; `there` are the ids, which it changes too."""
        r, found = self.random, []
        new = r.sample([i for i in range(60) if i not in there], r.randint(1, 6))
        found += [f"INSERT INTO f VALUES ({self.row(i)})" for i in new]
        gone = r.sample(sorted(there), len(there) // 4)
        found += [f"DELETE FROM f WHERE id IN ({', '.join(map(str, gone))})"] if gone else []
        there -= set(gone)
        there |= set(new)
        if r.random() < 0.6:
            column, kind = r.choice([("i", "i"), ("s", "s"), ("d", "d"), ("b", "b"), ("x", "x")])
            value = {"i": "5", "s": "'ba'", "d": "date '2025-05-05'", "b": "NOT b", "x": "2.5::double precision"}[kind]
            found.append(f"UPDATE f SET {column} = {value} WHERE id % 3 = {r.randint(0, 2)}")
        return found


def _value(value: Any, kind: str) -> Any:
    """A value of either side, comparable: numbers by nine digits."""
    if value is None:
        return None
    if kind == "X" or (kind == "I" and not isinstance(value, bool)):
        number = float(f"{float(value):.9g}")
        return 0.0 if abs(number) < 1e-12 else number
    if kind == "B":
        return value if isinstance(value, bool) else value == "t"
    if kind in "DM" and isinstance(value, str):
        return (dt.date if kind == "D" else dt.datetime).fromisoformat(value)
    return value


def _bag(rows: list[tuple[Any, ...]], kinds: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(_value(v, k) for v, k in zip(row, kinds, strict=True)) for row in rows)


def _run(
    db: ev.Session, queries: Queries, count: int, steps: int, run: Callable[[str], Any], ask: Callable[[str], list[Any]]
) -> None:
    """Install queries here, change the table here and there, compare after every transaction."""
    for each in (db.sql, run):
        each(f"CREATE TABLE f ({COLUMNS})")
    installed: dict[str, tuple[str, str]] = {}
    for n in range(count):
        text, kinds = queries.query()
        try:
            db.sql(f"CREATE VIEW v{n} AS {text}")
        except ev.EverviewError as error:
            raise AssertionError(f"{error}\n{text}") from error
        installed[f"v{n}"] = (text, kinds)
    there: set[int] = set()
    for step in range(steps):
        for each in (db.sql, run):
            each("BEGIN")
        for statement in queries.changes(there):
            for each in (db.sql, run):
                each(statement)
        for each in (db.sql, run):
            each("COMMIT")
        for name, (text, kinds) in installed.items():
            ours, theirs = _bag(db[name].rows(), kinds), _bag(ask(text), kinds)
            assert ours == theirs, f"step {step}: only here {ours - theirs}; only there {theirs - ours}\n{text}"
    db.close()


def _duck() -> tuple[Callable[[str], Any], Callable[[str], list[Any]]]:
    oracle = duckdb.connect()
    oracle.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'; SET threads = 1")
    return oracle.execute, lambda text: oracle.execute(text).fetchall()


def _session(shards: int) -> ev.Session:
    return local_shards(shards=shards) if shards else ev.connect()


@pytest.mark.parametrize(("seed", "shards"), [(1, 0), (2, 2)], ids=["embedded", "two shards"])
def test_against_postgres(postgres: Postgres, seed: int, shards: int) -> None:
    _run(_session(shards), Queries(seed, duck=False), 12, 5, postgres.run, postgres.rows)


@pytest.mark.parametrize(("seed", "shards"), [(3, 0), (4, 2)], ids=["embedded", "two shards"])
def test_against_duckdb(seed: int, shards: int) -> None:
    _run(_session(shards), Queries(seed, duck=True), 12, 5, *_duck())


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_against_postgres(postgres: Postgres, seed: int) -> None:
    _run(_session(seed % 3), Queries(seed, duck=False), 15, 6, postgres.run, postgres.rows)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 230))
def test_many_against_duckdb(seed: int) -> None:
    _run(_session(seed % 3), Queries(seed, duck=True), 15, 6, *_duck())
