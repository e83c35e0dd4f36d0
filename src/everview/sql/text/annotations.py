"""Annotations of a statement (see `everview.sql.text.statement_reader`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from everview.plan.multiway import Choice

SESSION = "sessio_"
"""The name of the function SESSION for sqlglot, where the word is a keyword."""

WINDOW = "windo_"
"""The same of Spark's window(ts, '10 minutes') behind GROUP BY."""


@dataclass(frozen=True)
class TableWindow:
    """`[size n time]` (in microseconds) or `[size n tuple partition by ...]`."""

    microseconds: int = 0
    tuples: int = 0
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class WatermarkNote:
    """`WATERMARK FOR column AS expression`: the column's position, and a text with SELECT before the expression and
    blanks for everything else.
    """

    column: str
    start: int
    text: str


@dataclass
class Notes:
    """What was removed from a statement's text, by the offset of the name that it belongs to."""

    limits: dict[int, tuple[str, int]] = field(default_factory=dict)
    """(error or return, rounds) by the first name of a WITH RECURSIVE"""
    windows: dict[int, TableWindow] = field(default_factory=dict)
    as_of: int | None = None
    definitions: bool = False
    """WITH without a query: every name becomes a view"""
    watermark: WatermarkNote | None = None
    emit_at: int | None = None
    """EMIT ON WINDOW CLOSE, and where"""
    emits_rows: bool = False
    """whether that is said of a query without TUMBLE and the like"""
    types: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """types of the columns of a WITH MUTUALLY RECURSIVE, by the query's name"""
    computed: dict[int, str] = field(default_factory=dict)
    """the type of a column x int AS a + b, by the column's name"""
    loose_references: bool = False
    """x int FOREIGN KEY REFERENCES t (id), as in Feldera: what is referred to need not be a key"""
    notices: list[str] = field(default_factory=list)
    """the notices"""
    skipped: list[str] = field(default_factory=list)
    """what IF EXISTS and IF NOT EXISTS passed over: told to clients of a server, no warning in a program"""
    session_keys: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """the columns of PARTITION BY in SESSION(TABLE t PARTITION BY ...), by the table's name"""
    described: set[int] = field(default_factory=set)
    """the names t in TUMBLE(TABLE t, DESCRIPTOR(ts), ...), as Flink writes it: there * has window_time too"""
    recursive: int | None = None
    """CREATE RECURSIVE VIEW, and where the word was"""
    overriding: str = ""
    """INSERT ... OVERRIDING SYSTEM VALUE or USER VALUE: whose values identities take"""
    plan: Choice | None = None
    """/*+ plan(...) */: how joins are maintained"""
