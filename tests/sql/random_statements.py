"""Random statements that mix clauses: queries of every shape, and changes of the tables they read.

    made = Queries(random.Random(7))
    made.query()          # SELECT ... with joins, groups, windows, subqueries, set operations ...
    made.change()         # INSERT, UPDATE, DELETE, MERGE ... of one of the tables
    made.alterations()    # ALTER TABLE, statement by statement, until the table has its columns again

All of it is SQL that PostgreSQL and DuckDB read as we do. What differs is left out or written so that it does not:

- integer division and avg (DuckDB divides exactly, PostgreSQL's avg is a numeric): sums and counts are used;
- answers that depend on ties: LIMIT, DISTINCT ON, row_number and lists are ordered by all columns;
- a FULL JOIN on anything but equalities, which PostgreSQL cannot do;
- sums of texts of numbers: only columns are summed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

TABLES = {
    "t": {"id": "int", "a": "int", "b": "int", "s": "text", "m": "numeric", "d": "date"},
    "u": {"id": "int", "a": "int", "c": "int", "s": "text"},
    "k": {"id": "int", "n": "text"},
}
CREATE = """
    CREATE TABLE t (id int PRIMARY KEY, a int, b int, s text, m numeric(9, 2), d date);
    CREATE TABLE u (id int PRIMARY KEY, a int, c int, s text);
    CREATE TABLE k (id int PRIMARY KEY, n text);
"""
TEXTS = ("'a'", "'b'", "'ab'", "'pear'", "''", "'B'")


@dataclass
class Rel:
    """Something in FROM: its alias, and the types of its columns."""

    alias: str
    columns: dict[str, str] = field(default_factory=dict)


class Queries:
    """Makes statements."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.number = 0

    def _new(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number}"

    # ------------------------------------------------------------------------------------ expressions

    def _column(self, rels: list[Rel], kind: str) -> str | None:
        found = [f"{rel.alias}.{c}" for rel in rels for c, t in rel.columns.items() if t == kind]
        return self.r.choice(found) if found else None

    def _constant(self, kind: str) -> str:
        r = self.r
        if kind == "int":
            return str(r.randint(-1, 5))
        if kind == "text":
            return r.choice(TEXTS)
        if kind == "numeric":
            return f"{r.randint(-3, 3)}.{r.randint(0, 99):02}"
        if kind == "date":
            return f"DATE '2026-0{r.randint(1, 3)}-{r.randint(10, 28)}'"
        return r.choice(["true", "false"])

    def value(self, rels: list[Rel], kind: str, depth: int = 1) -> str:
        """An expression of a type."""
        r, column = self.r, self._column(rels, kind)
        plain = column if column is not None and r.random() < 0.85 else self._constant(kind)
        if depth == 0 or r.random() < 0.5:
            return plain
        one, two = self.value(rels, kind, depth - 1), self.value(rels, kind, depth - 1)
        general = [
            f"CASE WHEN {self.condition(rels, 0)} THEN {one} ELSE {two} END",
            f"coalesce({one}, {two})",
            f"nullif({one}, {two})",
            f"greatest({one}, {two})",
        ]
        text = self.value(rels, "text", 0)
        special = {
            "int": [f"{one} + {two}", f"{one} * 2 - {two}", f"abs({one})", f"length({text})", f"-({plain})"],
            "text": [f"{one} || {two}", f"upper({one})", f"substr({one}, 1, 1)", f"replace({one}, 'a', 'xy')"],
            "numeric": [f"{one} + {two}", f"abs({one})"],
            "date": [f"{plain} + {r.randint(-3, 3)}"],
            "bool": [self.condition(rels, depth - 1)],
        }
        return f"({r.choice(general + special[kind])})"

    def condition(self, rels: list[Rel], depth: int = 2) -> str:
        """A condition over relations; with depth it has subqueries."""
        r, kind = self.r, self.r.choice(["int", "int", "text", "date", "numeric"])
        one, two = self.value(rels, kind, 0), self.value(rels, kind, 0)
        simple = [
            f"{one} {r.choice(['=', '<>', '<', '<=', '>', '>='])} {two}",
            f"{one} IS {r.choice(['', 'NOT '])}NULL",
            f"{one} IS DISTINCT FROM {two}",
            f"{one} BETWEEN {two} AND {self._constant(kind)}",
            f"{one} IN ({self._constant(kind)}, {self._constant(kind)})",
            f"{self.value(rels, 'text', 0)} LIKE {r.choice(['%a%', 'a_', '%'])!r}",
        ]
        if depth == 0:
            return r.choice(simple)
        table = r.choice(["t", "u"])
        inner = Rel(self._new("q"), TABLES[table])
        both = [*rels, inner]
        link = f"{inner.alias}.a = {self.value(rels, 'int', 0)}"
        more = [
            f"({self.condition(rels, depth - 1)} {r.choice(['AND', 'OR'])} {self.condition(rels, depth - 1)})",
            f"NOT ({self.condition(rels, depth - 1)})",
            f"EXISTS (SELECT 1 FROM {table} AS {inner.alias} WHERE {link} AND {self.condition(both, 0)})",
            f"NOT EXISTS (SELECT 1 FROM {table} AS {inner.alias} WHERE {link})",
            f"{one} {r.choice(['', 'NOT '])}IN (SELECT {self.value([inner], kind, 0)} FROM {table} AS {inner.alias})",
            f"{self.value(rels, 'int', 0)} > (SELECT count(*) FROM {table} AS {inner.alias} WHERE {link})",
            f"{self.value(rels, 'int', 0)} < ANY (SELECT {inner.alias}.a FROM {table} AS {inner.alias})",
        ]
        return r.choice(simple + more)

    def output(self, rels: list[Rel]) -> tuple[str, str]:
        """An expression and its type; sometimes a subquery on a key."""
        r = self.r
        if r.random() < 0.1:
            q = self._new("q")
            return f"(SELECT {q}.n FROM k AS {q} WHERE {q}.id = {self.value(rels, 'int', 0)})", "text"
        if r.random() < 0.1:
            q = self._new("q")
            return f"(SELECT sum({q}.c) FROM u AS {q} WHERE {q}.a = {self.value(rels, 'int', 0)})", "int"
        kind = r.choice(["int", "int", "text", "numeric", "date", "bool"])
        return self.value(rels, kind), kind

    # ------------------------------------------------------------------------------------------- FROM

    def factor(self, depth: int) -> tuple[str, Rel]:
        """A table, a derived table, VALUES or a series."""
        r, choice = self.r, self.r.random()
        if depth and choice < 0.2:
            text, columns = self.select(depth - 1)
            alias = self._new("f")
            return f"({text}) AS {alias}", Rel(alias, columns)
        if choice < 0.25:
            alias = self._new("f")
            rows = ", ".join(f"({self._constant('int')}, {self._constant('text')})" for _ in range(r.randint(1, 3)))
            return f"(VALUES {rows}) AS {alias}(x, y)", Rel(alias, {"x": "int", "y": "text"})
        if choice < 0.3:
            alias = self._new("f")
            return f"generate_series({r.randint(0, 1)}, {r.randint(2, 3)}) AS {alias}(x)", Rel(alias, {"x": "int"})
        table, alias = r.choice(["t", "t", "u", "u", "k"]), self._new("f")
        return f"{table} AS {alias}", Rel(alias, TABLES[table])

    def source(self, depth: int) -> tuple[str, list[Rel]]:
        """FROM: one to three factors, joined in every way."""
        r = self.r
        text, first = self.factor(depth)
        rels = [first]
        for _ in range(r.choice([0, 0, 1, 1, 2])):
            if depth and r.random() < 0.1:
                alias, table = self._new("l"), r.choice(["t", "u"])
                inner = Rel(self._new("q"), TABLES[table])
                link = f"{inner.alias}.a = {self.value(rels, 'int', 0)}"
                query = f"SELECT count(*) AS x, max({inner.alias}.s) AS y FROM {table} AS {inner.alias} WHERE {link}"
                text += f" {r.choice(['CROSS', 'LEFT'])} JOIN LATERAL ({query}) AS {alias}"
                text += " ON true" if " LEFT JOIN LATERAL" in text[-len(query) - 60 :] else ""
                rels.append(Rel(alias, {"x": "int", "y": "text"}))
                continue
            right, rel = self.factor(depth)
            how = r.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
            equal = f"{self.value(rels, 'int', 0)} = {self.value([rel], 'int', 0)}"
            if how != "CROSS JOIN":
                extra = f" AND {self.condition([*rels, rel], r.choice([0, 0, 1]))}" if r.random() < 0.4 else ""
                text += f" {how} {right} ON {equal}{'' if how == 'FULL JOIN' else extra}"
            else:
                text += f" CROSS JOIN {right}"
            rels.append(rel)
        return text, rels

    # ---------------------------------------------------------------------------------------- queries

    def select(self, depth: int = 1) -> tuple[str, dict[str, str]]:
        """A SELECT, and the types of its outputs."""
        r = self.r
        text, rels = self.source(depth)
        where = f" WHERE {self.condition(rels, 2 if depth else 0)}" if r.random() < 0.6 else ""
        shape = r.random()
        if shape < 0.3:
            return self._grouped(text, rels, where)
        outputs = [self.output(rels) for _ in range(r.randint(1, 3))]
        if shape < 0.45:
            return self._windows(text, rels, where, outputs)
        names = {f"c{i}": kind for i, (_, kind) in enumerate(outputs)}
        listed = ", ".join(f"{e} AS c{i}" for i, (e, _) in enumerate(outputs))
        order = ", ".join(f"{i + 1}{r.choice(['', ' DESC', ' NULLS FIRST'])}" for i in range(len(outputs)))
        if shape < 0.55:
            return f"SELECT DISTINCT {listed} FROM {text}{where}", names
        if shape < 0.65:
            some = f"SELECT {listed} FROM {text}{where} ORDER BY {order} LIMIT {r.randint(1, 4)}"
            return some + r.choice(["", " OFFSET 1"]), names
        if shape < 0.72:
            first = f"SELECT DISTINCT ON (c0) * FROM (SELECT {listed} FROM {text}{where}) AS {self._new('d')}"
            return f"{first} ORDER BY {', '.join(names)}", names
        return f"SELECT {listed} FROM {text}{where}", names

    def _aggregate(self, rels: list[Rel]) -> tuple[str, str]:
        r = self.r
        number, text = self.value(rels, "int", 0), self.value(rels, "text", 0)
        call, kind = r.choice(
            [
                ("count(*)", "int"),
                (f"count({text})", "int"),
                (f"count(DISTINCT {number})", "int"),
                (f"sum({number})", "int"),
                (f"min({text})", "text"),
                (f"max({number})", "int"),
                (f"bool_or({self.condition(rels, 0)})", "bool"),
                (f"string_agg({text}, '+' ORDER BY {text})", "text"),
            ]
        )
        return (f"{call} FILTER (WHERE {self.condition(rels, 0)})" if r.random() < 0.25 else call), kind

    def _grouped(self, text: str, rels: list[Rel], where: str) -> tuple[str, dict[str, str]]:
        r = self.r
        keys = [k for k in {self._column(rels, kind): kind for kind in ("int", "text")}.items() if k[0] is not None]
        keys = keys[: r.randint(0, 2)]
        calls = [self._aggregate(rels) for _ in range(r.randint(1, 2))]
        items = [*keys, *calls]
        names = {f"c{i}": kind for i, (_, kind) in enumerate(items)}
        listed = ", ".join(f"{e} AS c{i}" for i, (e, _) in enumerate(items))
        by = ", ".join(str(k) for k, _ in keys)
        how = r.choice([by, by, f"ROLLUP ({by})", f"CUBE ({by})", f"GROUPING SETS (({by}), ())"])
        group = f" GROUP BY {how}" if keys else ""
        having = f" HAVING count(*) > {r.randint(0, 2)}" if r.random() < 0.3 else ""
        return f"SELECT {listed} FROM {text}{where}{group}{having}", names

    def _windows(
        self, text: str, rels: list[Rel], where: str, outputs: list[tuple[str, str]]
    ) -> tuple[str, dict[str, str]]:
        """Window functions over a derived table, ordered by all its columns."""
        r = self.r
        names = {f"c{i}": kind for i, (_, kind) in enumerate(outputs)}
        listed = ", ".join(f"{e} AS c{i}" for i, (e, _) in enumerate(outputs))
        order = ", ".join(names)
        part = r.choice(["", "PARTITION BY c0 "])
        call = r.choice(
            [
                f"row_number() OVER ({part}ORDER BY {order})",
                f"rank() OVER ({part}ORDER BY c0)",
                f"dense_rank() OVER ({part}ORDER BY c0 DESC)",
                f"count(*) OVER ({part}ORDER BY {order} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
                f"sum(1) OVER ({part or 'PARTITION BY c0'})",
                f"lag({r.randint(1, 9)}) OVER ({part}ORDER BY {order})",
            ]
        )
        inner = f"(SELECT {listed} FROM {text}{where}) AS {self._new('w')}"
        return f"SELECT {order}, {call} AS w FROM {inner}", {**names, "w": "int"}

    def query(self) -> tuple[str, list[str]]:
        """Any query, and the names of its outputs."""
        r, shape = self.r, self.r.random()
        text, names = self.select()
        if shape < 0.2:
            kinds = list(names.values())
            other, rels = self.source(0)
            outputs = ", ".join(self.value(rels, kind) for kind in kinds)
            word = r.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
            return f"({text}) {word} (SELECT {outputs} FROM {other})", list(names)
        if shape < 0.35:
            cte = self._new("cte")
            rel = Rel(cte, names)
            outputs = ", ".join(f"{self.value([rel], kind, 0)} AS c{i}" for i, kind in enumerate(names.values()))
            both = f"{cte} LEFT JOIN {cte} AS other ON other.c0 = {cte}.c0" if r.random() < 0.3 else cte
            return f"WITH {cte} AS ({text}) SELECT {outputs} FROM {both}", [f"c{i}" for i in range(len(names))]
        return text, list(names)

    # ---------------------------------------------------------------------------------------- changes

    def row(self, table: str) -> str:
        """Values of a new row."""
        r = self.r
        values = [str(r.randint(1, 12))]
        for kind in list(TABLES[table].values())[1:]:
            values.append("NULL" if r.random() < 0.25 else self._constant(kind))
        return f"({', '.join(values)})"

    def change(self) -> str:
        """A statement that changes a table; it may be refused because of a key."""
        r, table = self.r, self.r.choice(["t", "t", "u", "u", "k"])
        rel = Rel(table, TABLES[table])
        column = {"t": "b", "u": "c", "k": "n"}[table]
        kind = TABLES[table][column]
        rows = ", ".join(self.row(table) for _ in range(r.randint(1, 4)))
        other = Rel("o", TABLES["u"])
        return r.choice(
            [
                f"INSERT INTO {table} VALUES {rows} ON CONFLICT (id) DO NOTHING",
                f"INSERT INTO {table} VALUES {rows} ON CONFLICT DO NOTHING",
                f"INSERT INTO {table} VALUES {self.row(table)}",
                f"INSERT INTO {table} VALUES {self.row(table)} "
                f"ON CONFLICT (id) DO UPDATE SET {column} = excluded.{column}",
                f"UPDATE {table} SET {column} = {self.value([rel], kind)} WHERE {self.condition([rel], 1)}",
                f"UPDATE t SET a = o.c, s = o.s FROM u AS o WHERE o.id = t.id AND {self.condition([other], 0)}",
                f"UPDATE t SET (a, b) = (b, a) WHERE {self.condition([Rel('t', TABLES['t'])], 0)}",
                f"DELETE FROM {table} WHERE {self.condition([rel], 1)} AND {table}.id > {r.randint(2, 8)}",
                f"DELETE FROM t USING u AS o WHERE o.a = t.b AND {self.condition([other], 0)} AND t.id > 5",
                f"WITH gone AS (DELETE FROM u WHERE id > {r.randint(7, 12)} RETURNING id, s) "
                "INSERT INTO k SELECT id, s FROM gone ON CONFLICT (id) DO NOTHING",
                f"MERGE INTO k USING u AS o ON o.id = k.id WHEN MATCHED AND o.s IS NULL THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET n = o.s WHEN NOT MATCHED AND o.id < {r.randint(3, 12)} "
                "THEN INSERT VALUES (o.id, o.s)",
                f"TRUNCATE {table}" if r.random() < 0.2 else f"DELETE FROM {table} WHERE id = {r.randint(1, 12)}",
            ]
        )

    # ----------------------------------------------------------------------------------------- tables

    def alterations(self) -> tuple[str, list[str]]:
        """A table, and statements that alter it and use what they have made; in the end it is as it was."""
        r, table = self.r, self.r.choice([*TABLES])
        rel, new, kind = Rel(table, TABLES[table]), self._new("z"), self.r.choice(["int", "text"])
        name = self._new("y")
        value, condition = self.value([rel], kind), self.condition([rel], 0)
        made = [
            f"ALTER TABLE {table} ADD COLUMN {new} {kind}",
            f"UPDATE {table} SET {new} = {value} WHERE {condition}",
        ]
        more = [
            f"ALTER TABLE {table} RENAME COLUMN {new} TO {name}",
            f"ALTER TABLE {table} RENAME COLUMN {name} TO {new}",
            f"ALTER TABLE {table} ALTER COLUMN {new} TYPE text USING coalesce({new}::text, 'none')",
            f"ALTER TABLE {table} ALTER COLUMN {new} SET NOT NULL",
            f"ALTER TABLE {table} RENAME TO {table}_other",
            f"UPDATE {table}_other SET {new} = {new} || '!' WHERE id > {r.randint(1, 9)}",
            f"ALTER TABLE {table}_other RENAME TO {table}",
        ]
        made += more if r.random() < 0.7 else []
        return table, [*made, f"ALTER TABLE {table} DROP COLUMN {new}"]
