"""Functions of SQL that give rows: RETURNS TABLE (...) and RETURNS SETOF ..., in FROM.

    CREATE FUNCTION later(k int) RETURNS TABLE (id int, t text) LANGUAGE SQL AS $$ SELECT id, t FROM j WHERE id >= k $$;
    SELECT * FROM later(3)

A call is a query of the arguments, and LATERAL to it the body, which reads them as columns of a table that has the
function's name. So a column of the body's own tables comes before a parameter of that name, as in PostgreSQL:

    LATERAL (SELECT CAST(b.id AS int) AS id, CAST(b.t AS text) AS t
             FROM (SELECT CAST(3 AS int) AS k) AS later,
                  LATERAL (SELECT id, t FROM j WHERE id >= k) AS b(id, t)) AS later
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from everview.codes.digits import whole_number
from everview.sql.ddl import function_arguments
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.dialects import DEFAULT, Everview
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.session.names.entries import FunctionMade
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.table_functions import TableCall

_BODY = "_rows"


def found(call: TableCall, compiler: Compiler) -> FunctionMade | None:
    """The function that a call in FROM is of."""
    made = compiler.core.catalog.sql_functions.get(call.name)
    if made is not None and not compiler.trusted and not compiler.core.access.sees("function", made.name):
        return None
    if made is not None and not made.rows:
        hint = f"SELECT {call.name}(...)"
        raise compiler.source.refuse(call.node, f"{call.name} gives one value, so it is not allowed here", hint)
    return made


def query(made: FunctionMade, call: TableCall, node: exp.Expr, compiler: Compiler) -> exp.Lateral:
    """The LATERAL query that a call is."""
    source = compiler.source
    if call.numbered:
        raise source.refuse(node, f"WITH ORDINALITY of {made.name} is not supported", "use row_number()")
    if made.dialect != source.dialect:
        what = f"{made.name} was written in the dialect {made.dialect}"
        raise source.refuse(call.node, what, f"SET dialect = '{made.dialect}'")
    args = function_arguments.given(made, call.args, call.node, source)
    alias = node.args.get("alias")
    listed = [c.name for c in (alias.args.get("columns") or [])] if isinstance(alias, exp.TableAlias) else []
    name = alias.name if isinstance(alias, exp.TableAlias) and alias.name else made.name
    consumed_parts.understood(call.node)
    if alias is not None:
        consumed_parts.understood(alias)
    inner = _query(made, args, "" if alias is None else name)
    return exp.Lateral(this=exp.Subquery(this=inner), alias=_alias(name, listed), view=False, outer=False)


def _query(made: FunctionMade, args: list[exp.Expr], called: str = "", whole: bool = False) -> exp.Select:
    """The rows for arguments; a single value has the name that the call is given; `whole`: as the body has them."""
    columns = () if whole else made.columns
    body = _body(made)
    if not columns:
        outputs: list[exp.Expr] = [exp.Column(this=exp.Star(), table=exp.to_identifier(_BODY))]
        names: list[str] = []
    else:
        names = [name or called or made.name for name, _ in columns]
        outputs = [
            exp.alias_(exp.Cast(this=exp.column(n, _BODY, quoted=True), to=_type(kind)), n, quoted=True)
            for n, (_, kind) in zip(names, columns, strict=True)
        ]
    rows = exp.Subquery(this=body)
    select = exp.Select(expressions=outputs)
    if not args:
        rows.set("alias", _alias(_BODY, names))
        return select.from_(rows, copy=False)
    given = [
        exp.alias_(exp.Cast(this=arg, to=_type(kind)), name or f"${i + 1}", quoted=True)
        for i, (arg, (name, kind)) in enumerate(zip(args, made.parameters, strict=True))
    ]
    select = select.from_(exp.Subquery(this=exp.Select(expressions=given), alias=_alias(made.name, [])), copy=False)
    lateral = exp.Lateral(this=rows, alias=_alias(_BODY, names), view=False, outer=False)
    select.append("joins", exp.Join(this=lateral))
    if made.strict:
        present = [
            exp.Not(this=exp.Is(this=exp.column(name or f"${i + 1}", made.name, quoted=True), expression=exp.Null()))
            for i, (name, _) in enumerate(made.parameters)
        ]
        select.set("where", exp.Where(this=exp.and_(*present)))
    return select


def _alias(name: str, columns: list[str]) -> exp.TableAlias:
    return exp.TableAlias(
        this=exp.to_identifier(name, quoted=True), columns=[exp.to_identifier(c, quoted=True) for c in columns]
    )


def _type(text: str) -> exp.DataType:
    cast = sqlglot.parse_one(f"CAST(NULL AS {text})", read=Everview)
    assert isinstance(cast, exp.Cast)
    kind: exp.DataType = cast.to
    return kind


def _body(made: FunctionMade) -> exp.Expr:
    tree = statement_reader.parsed(Source(made.body, dialect=made.dialect))
    for node in list(tree.walk()):
        node.meta.pop("start", None)  # its places are in another text
        if isinstance(node, (exp.Parameter, exp.Placeholder)) and node.name.isdecimal():
            at = whole_number(node.name) - 1
            name = made.parameters[at][0] if at < len(made.parameters) else ""
            node.replace(exp.column(name or f"${at + 1}", made.name, quoted=True))
    return tree


@contextmanager
def inside(made: FunctionMade, call: TableCall, compiler: Compiler) -> Iterator[None]:
    """While the body is bound: it cannot call itself."""
    if made.name in compiler.inlining:
        what = f"the function {made.name} calls itself"
        raise compiler.source.error(call.node, "E_RECURSION", what, "use WITH RECURSIVE")
    if not compiler.trusted:
        compiler.core.access.may_execute(made.name)
    compiler.called[made.name] = None
    before, compiler.inlining = compiler.inlining, (*compiler.inlining, made.name)
    try:
        yield
    finally:
        compiler.inlining = before


def check(made: FunctionMade, compiler: Compiler) -> None:
    """Bind the body once, with NULLs as arguments."""
    tree = statement_reader.parsed(Source(made.body, dialect=made.dialect))
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise compiler.source.refuse(tree, "the body of a function that gives rows is a query", DEFAULT)
    args: list[exp.Expr] = [exp.Null() for _ in made.parameters]
    if not made.columns:
        known = {n.lower() for n in (*compiler.core.catalog.tables, *compiler.core.catalog.views)}
        if made.returns.lower() not in known:
            raise compiler.source.error_at(0, "E_TYPE", f"there is no type {made.returns}", "a type, or a table's name")
    width = len(compiler.query(_query(made, args, whole=True), {}, None).names)
    if made.columns and width != len(made.columns):
        what = f"the body has {width} columns, {made.name} returns {len(made.columns)}"
        raise compiler.source.error(tree, "E_WIDTH", what)
    compiler.query(_query(made, args), {}, None)
