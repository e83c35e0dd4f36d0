"""Time windows as functions in FROM: every row with the windows that contain it.

    TUMBLE(t, ts, INTERVAL '10 minutes' [, offset])               one window after the other
    HOP(t, ts, INTERVAL '5 minutes', INTERVAL '15 minutes' [, offset])   every 5 minutes one of 15
    CUMULATE(t, ts, INTERVAL '1 hour', INTERVAL '1 day')           windows that begin together and grow by an hour
    SESSION(t, ts, INTERVAL '30 minutes' [, key, ...])             rows (of each key) at most 30 minutes apart

Each returns the columns of `t`, then `window_start` and `window_end` (exclusive). Windows begin at 1970-01-01, or later
by the offset. A row whose time is NULL is in no window. None of this needs special operators: tumbling is arithmetic,
hops and cumulated windows are a join with their numbers, and sessions are window functions (a change recomputes the
sessions of its key).

HOP, CUMULATE and SESSION stand in GROUP BY too, without the table (`group`); TUMBLE there is an expression of a row
(`everview.sql.scalar.time_windows`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr
from everview.plan import joins
from everview.plan.nodes import Constant, Filter, Join, Node, Project
from everview.plan.windows import TO_PEERS, Window, WindowCall
from everview.sql.clock import watermarks
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.time_windows import again, begin, length, moved, offset, plain, steps
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.select.table_functions import TableCall
from everview.sql.text import consumed_parts
from everview.sql.text.annotations import SESSION
from everview.sql.text.error_positions import Source, offset_of
from everview.types import INT, TIMESTAMP

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.query import Env

Made = tuple[Node, Callable[[], list[Expr]]]
"""The rows with their windows, and the ends of windows that a row of the table may be in."""

MAX_WINDOWS = 10_000
"""Maximum number of windows per row."""


def relation(compiler: Compiler, call_: TableCall, env: Env) -> Relation:
    """What such a function gives."""
    low, high = _ARITY[call_.name]
    if not low <= len(call_.args) <= high:
        raise compiler.source.error(call_.node, "E_ARITY", f"{call_.name}: {_SYNTAX[call_.name]}")
    by = _session_keys(call_, compiler.source)
    call_ = replace(call_, args=[*call_.args, *map(exp.column, by)]) if by else call_
    table = _table(compiler, call_.args[0], env)
    scope = Scope(table, compiler.source)
    scalars = Scalars(compiler, scope, env)
    given = scalars.bind(_described(call_.args[1]))
    moment = plain(given, call_.args[1], scalars)
    node = table.node
    if moment.type.nullable:
        node = Filter(node, call("is_not_null", moment))
    made = _windowed(compiler, node, given, call_, scalars)
    fields = (*table.fields, Field("window_start"), Field("window_end"))
    if WINDOW_TIME not in compiler.source.text.lower() or any(f.name.lower() == WINDOW_TIME for f in fields):
        return Relation(made, fields)
    named = call_.args[0].this.meta.get("start", -1) if isinstance(call_.args[0], exp.Column) else -1
    starred = named in compiler.source.notes.described
    return Relation(_with_time(made), (*fields, Field(WINDOW_TIME, starred=starred)))


def _session_keys(call_: TableCall, source: Source) -> tuple[str, ...]:
    """The columns of PARTITION BY, which was noted at the word before it: the table's name (w, of s.w), or the bracket
    that closes a query. That one is found by what follows it: the time of this call, and not of one inside the query.
    """
    table, notes = call_.args[0], source.notes.session_keys
    if isinstance(table, exp.Column):
        return notes.get(offset_of(table.this), ())
    first, end = offset_of(table), offset_of(_described(call_.args[1]))
    own = (at for at in notes if first <= at < end and _TIME_FOLLOWS.fullmatch(source.text, at + 1, end))
    return notes.get(max(own, default=-1), ())


_TIME_FOLLOWS = re.compile(r"\s*,\s*(descriptor\s*\(\s*)?", re.IGNORECASE)

WINDOW_TIME = "window_time"
"""The last millisecond of a window, as Flink has it. It exists only in texts that name it; there it is a part of * if
the table is named as in Flink, TABLE t: Calcite, whose form this is too, does not have it."""


def _with_time(node: Node) -> Node:
    """Rows with the last millisecond of their window, whose end is the last column."""
    columns = joins.refs(node.types)
    last = moved(functions.cast(columns[-1], TIMESTAMP), steps(-1000))
    return Project(node, (*columns, again(columns[-1], last)))


def group(compiler: Compiler, select: exp.Select, scope: Scope, env: Env, context: int) -> None:
    """GROUP BY HOP(ts, slide, size), CUMULATE or SESSION(ts, gap), as in Flink: every row of the query with its
    windows, grouped by their starts and ends, which are HOP_START(ts, slide, size) and HOP_END. A session is of the
    other keys.
    """
    clause = select.args.get("group")
    if clause is None:
        return
    calls = [k for k in clause.expressions if isinstance(k, exp.Anonymous) and k.name.lower() in IN_GROUPS]
    if not calls:
        return
    at, *more = calls
    if more:
        raise compiler.source.refuse(more[0], "a query is grouped by one kind of window", "use a derived table")
    name = IN_GROUPS[at.name.lower()]
    if context and name == "session":
        raise compiler.source.refuse(at, "SESSION stands in FROM in a correlated subquery")
    others = [k for k in clause.expressions if k is not at] if name == "session" else []
    low, high = _ARITY[name]
    if not low <= len(at.expressions) + 1 <= (3 if others or name == "session" else high):
        raise compiler.source.error(at, "E_ARITY", f"in GROUP BY: {_SYNTAX[name].replace('table, ', '')}")
    scalars = Scalars(compiler, scope, env)
    call_ = TableCall(at, name, [at, *at.expressions, *others])
    given = scalars.bind(at.expressions[0])
    moment = plain(given, at.expressions[0], scalars)
    if moment.type.nullable:
        scope.keep(call("is_not_null", moment))
    windows = scope.append(_windowed(compiler, scope.relation.node, given, call_, scalars))[-2:]
    keys = [exp.Anonymous(this=f"{name}_{bound}", expressions=at.expressions) for bound in ("start", "end")]
    for key, column in zip(keys, windows, strict=True):
        for node in (key, *(n for n in select.find_all(exp.Anonymous) if n == key)):
            scope.placed[id(node)] = column
            consumed_parts.understood(node)
    clause.set("expressions", [each for k in clause.expressions for each in (keys if k is at else [k])])


def _windowed(compiler: Compiler, node: Node, given: Expr, call_: TableCall, scalars: Scalars) -> Node:
    """Rows with the windows of their time; only the closed ones of a view that says so."""
    moment = plain(given, call_.args[1], scalars)
    made, ends = _KINDS[call_.name](node, moment, call_, scalars)
    if compiler.standing and compiler.source.notes.emit_at is not None:
        compiler.emitted = True
        made = watermarks.closed(compiler, made, node, moment, ends(), call_.name == "session", call_.node)
    if given.type.kind == "timestamptz":
        *columns, start, end = joins.refs(made.types)
        made = Project(made, (*columns, again(given, start), again(given, end)))
    return made


def _table(compiler: Compiler, node: exp.Expr, env: Env) -> Relation:
    """The table that is named, or a query."""
    if isinstance(node, exp.Subquery):
        return compiler.derived(node, env)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        named = exp.Table(this=node.this, db=node.args.get("table"), catalog=node.args.get("db"))
        return compiler.table(named, env).called(node.name)
    raise compiler.source.refuse(node, "a table, a view or a query in parentheses is expected here")


def _described(node: exp.Expr) -> exp.Expr:
    """The column in DESCRIPTOR(column), as others write it."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "descriptor" and len(node.expressions) == 1:
        column: exp.Expr = node.expressions[0]
        return column
    return node


def _with_windows(node: Node, start: Expr, end: Expr, width: int) -> Node:
    return Project(node, (*joins.refs(node.types)[:width], start, end))


def _tumble(node: Node, moment: Expr, call_: TableCall, scalars: Scalars) -> Made:
    size = length(call_.args[2], scalars)
    start = begin(moment, size, offset(call_.args, 3, scalars))
    end = moved(start, steps(size))
    return _with_windows(node, start, end, len(node.types)), lambda: [end]


def _hop(node: Node, moment: Expr, call_: TableCall, scalars: Scalars) -> Made:
    slide, size = (length(a, scalars) for a in call_.args[2:4])
    count = -(-size // slide)
    shifts = [-i * slide for i in range(count)]
    joined, shift = _times(node, shifts, call_, scalars)
    first = begin(moment, slide, offset(call_.args, 4, scalars))
    start = moved(first, shift)
    end = moved(start, steps(size))
    if size % slide:
        joined = Filter(joined, call("gt", end, moment))
    made = _with_windows(joined, start, end, len(node.types))
    return made, lambda: [moved(first, steps(s + size)) for s in shifts]


def _cumulate(node: Node, moment: Expr, call_: TableCall, scalars: Scalars) -> Made:
    step, size = (length(a, scalars) for a in call_.args[2:4])
    if size % step:
        raise scalars.source.error(call_.args[2], "E_RANGE", "the whole window must be a number of steps")
    shifts = [i * step for i in range(1, size // step + 1)]
    joined, shift = _times(node, shifts, call_, scalars)
    start = begin(moment, size, offset(call_.args, 4, scalars))
    end = moved(start, shift)
    made = _with_windows(Filter(joined, call("gt", end, moment)), start, end, len(node.types))
    return made, lambda: [moved(start, steps(s)) for s in shifts]


def _times(node: Node, shifts: list[int], call_: TableCall, scalars: Scalars) -> tuple[Node, Expr]:
    """Every row with every shift, which is the last column."""
    if len(shifts) > MAX_WINDOWS:
        what = f"every row would be in up to {len(shifts)} windows"
        raise scalars.source.error(call_.node, "E_RANGE", what, f"{MAX_WINDOWS} at most")
    numbers = Constant(tuple((s,) for s in shifts), (INT,))
    return Join(node, numbers, (), ()), ColumnRef(INT, len(node.types))


def _session(node: Node, moment: Expr, call_: TableCall, scalars: Scalars) -> Made:
    gap = steps(length(call_.args[2], scalars))
    width = len(node.types)
    keys = [joins.canonical(scalars.bind(a)) for a in call_.args[3:]]
    below, places = joins.with_columns(node, [*keys, moment])
    by, at = tuple(dict.fromkeys(places[:-1])), places[-1]
    declared = below.types[at]
    order = ((at, False),)
    before = Window(below, by, order, (WindowCall("lag", declared.optional(), at),))
    last = ColumnRef(declared.optional(), len(below.types))
    time = ColumnRef(declared, at)
    apart = call("or", call("is_null", last), call("gt", time, moved(last, gap)))
    fresh = call("case", apart, steps(1), steps(0))
    marked = Project(before, (*joins.refs(below.types), fresh))
    numbered = Window(marked, by, order, (WindowCall("sum", INT, len(below.types), TO_PEERS),))
    number = len(below.types) + 1
    calls = (WindowCall("min", declared, at), WindowCall("max", declared, at))
    whole = Window(numbered, (*by, number), (), calls)
    first, final = (ColumnRef(declared, number + i) for i in (1, 2))
    return _with_windows(whole, first, moved(final, gap), width), lambda: [moved(moment, gap)]


_KINDS: dict[str, Callable[[Node, Expr, TableCall, Scalars], Made]] = {
    "tumble": _tumble,
    "hop": _hop,
    "cumulate": _cumulate,
    "session": _session,
}
NAMES = frozenset(_KINDS)
IN_GROUPS = {"hop": "hop", "cumulate": "cumulate", "session": "session", SESSION: "session"}
"""Windows in GROUP BY that are not an expression of their row, by the names that are read there."""
_ARITY = {"tumble": (3, 4), "hop": (4, 5), "cumulate": (4, 5), "session": (3, 40)}
_SYNTAX = {
    "tumble": "TUMBLE(table, time, size [, offset])",
    "hop": "HOP(table, time, slide, size [, offset])",
    "cumulate": "CUMULATE(table, time, step, size [, offset])",
    "session": "SESSION(table, time, gap [, key, ...])",
}
