"""Translates catalog queries from PostgreSQL's dialect to SQLite.

sqlglot does most of it. The rest is done here, on the tree: casts to regclass and regtype become look-ups, ANY and ALL
of arrays become functions, functions that return rows (unnest, generate_series) become json_each, which in SQLite may
refer to columns of the tables to its left, like LATERAL.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError

from everview.codes.digits import whole_number
from everview.server.pg.catalog.relations import RELATIONS
from everview.server.pg.sqlstates import PgError

_OPERATOR = re.compile(r"OPERATOR\s*\(\s*(?:pg_catalog\s*\.\s*)?([^)\s]+)\s*\)", re.IGNORECASE)
_COLLATE = re.compile(r"\bCOLLATE\s+(?:pg_catalog\s*\.\s*)?(?:\"[^\"]+\"|\w+)", re.IGNORECASE)
_ARRAYS = re.compile(
    r'::\s*(?:pg_catalog\s*\.\s*)?(oid|xid|regclass|regtype|regproc|name|"char")\s*\[\s*\]', re.IGNORECASE
)
"""Arrays of types that sqlglot does not know; PostgreSQL's own names of such types begin with an underscore."""

_NUMBERS = ("int", "int2", "int4", "int8", "integer", "smallint", "bigint", "oid", "xid")
_TEXTS = ("text", "varchar", "name", "char", "bpchar")
_WORDS = {"CURRENT_USER": "current_user_", "SESSION_USER": "session_user_", "USER": "current_user_"}
NODES = {
    "CurrentUser": "current_user_", "SessionUser": "session_user_", "CurrentSchema": "current_schema",
    "CurrentCatalog": "current_database", "CurrentDatabase": "current_database", "Version": "version",
    "CurrentVersion": "version", "CurrentSchemas": "current_schemas",
}  # fmt: skip
"""Functions that sqlglot has nodes for, and what they are called here."""


def parsed(text: str) -> exp.Expr:
    """The tree of a catalogue query."""
    text = _COLLATE.sub("", _OPERATOR.sub(r"\1", text))
    text = _ARRAYS.sub(lambda m: f"::_{m[1].strip(chr(34)).lower()}", text)
    try:
        return sqlglot.parse_one(text, read="postgres")
    except (ParseError, TokenError) as error:
        what = str(error).splitlines()[0]
        raise PgError("E_SYNTAX", "42601", f"the query cannot be read: {what}", "") from None


def rewritten(tree: exp.Expr) -> str:
    """A query as SQLite takes it.

    >>> rewritten(parsed("SELECT 'a'::pg_catalog.regclass::oid WHERE x = ANY(ARRAY['r', 'v'])"))
    "SELECT CAST(REGCLASS_('a') AS INTEGER) WHERE x IN ('r', 'v')"
    """
    tree = tree.copy()
    for select in list(tree.find_all(exp.Select)):
        _unfold(select)
        _order(select)
    for step in (_names, _named_values, _rows_of_functions, _quantified, _casts, _rest):
        tree = _changed(tree, step)
    return tree.sql("sqlite", unsupported_level=ErrorLevel.IGNORE)


def _order(select: exp.Select) -> None:
    """ORDER BY the name of an output is that output, whatever columns are called so, too."""
    names = [item.alias_or_name for item in select.expressions]
    order = select.args.get("order")
    for ordered in order.expressions if order is not None else ():
        by = ordered.this
        if isinstance(by, exp.Column) and not by.table and names.count(by.name) == 1:
            by.replace(exp.Literal.number(names.index(by.name) + 1))


def _changed(tree: exp.Expr, step: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The tree with something done to each node, parts before what they are parts of."""
    for node in reversed(list(tree.walk())):
        new = step(node)
        if new is not node:
            if node is tree:
                tree = new
            else:
                node.replace(new)
    return tree


def function_name(node: exp.Expr) -> str:
    """The name of a function that is called, in small letters; nothing if it is not a call."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _names(node: exp.Expr) -> exp.Expr:
    """pg_catalog.version() is version(); CURRENT_USER is a call."""
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Paren) and isinstance(node.expression, exp.Identifier):
        return _call("json_extract", node.this.this, exp.Literal.string(f"$.{node.expression.name.lower()}"))
    if isinstance(node, exp.Dot):
        last: exp.Expr = node
        while isinstance(last, exp.Dot):
            last = last.expression
        if isinstance(last, (exp.Func, exp.Anonymous)):
            return last
    if isinstance(node, exp.Column) and node.name.lower() in ("tableoid", "ctid", "xmin"):
        return exp.Null()
    if isinstance(node, exp.Column) and not node.table and not node.this.args.get("quoted"):
        if node.name.upper() in _WORDS:
            return _call(_WORDS[node.name.upper()])
        if node.name.upper() == "CURRENT_CATALOG":
            return _call("current_database")
        if node.name.upper() == "CURRENT_SCHEMA":
            return _call("current_schema")
    if isinstance(node, exp.Table) and node.args.get("catalog") is not None:
        node.set("catalog", None)
    name = NODES.get(type(node).__name__)
    if name is not None:
        given = node.args.get("this") if name == "current_schemas" else None
        return _call(name, *([given] if isinstance(given, exp.Expr) else []))
    return node


def _named_values(node: exp.Expr) -> exp.Expr:
    """(VALUES ...) AS s(a, b): SQLite has its own names for the columns. psql's \\gdesc asks so."""
    alias = node.args.get("alias") if isinstance(node, exp.Values) else None
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if not columns:
        return node
    assert isinstance(alias, exp.TableAlias)
    bare = node.copy()
    bare.set("alias", None)
    named = [exp.alias_(exp.column(f"column{i}"), c.name, quoted=True) for i, c in enumerate(columns, 1)]
    inner = exp.Select(expressions=named).from_(exp.Subquery(this=bare))
    return exp.Subquery(this=inner, alias=exp.TableAlias(this=alias.this))


# functions that give rows


def _series(call: exp.Expr) -> exp.Expr | None:
    """The JSON array of a function that gives rows."""
    name = function_name(call)
    given = list(call.expressions) or [
        a for a in (call.args.get("this"), call.args.get("expression")) if isinstance(a, exp.Expr)
    ]
    if isinstance(call, (exp.GenerateSeries, exp.ExplodingGenerateSeries)):
        name = "generate_series"
        given = [a for key in ("start", "end", "step") if isinstance(a := call.args.get(key), exp.Expr)]
    match name:
        case "unnest" | "explode" | "aclexplode" | "_pg_expandarray":
            return _call("array_json_", given[0])
        case "generate_series":
            return _call("series_json_", *given)
        case "generate_subscripts":
            return _call("series_json_", exp.Literal.number(1), _call("array_upper", given[0], exp.Literal.number(1)))
        case "pg_partition_ancestors" | "pg_partition_tree" | "pg_options_to_table" | "pg_get_publication_tables":
            return exp.Literal.string("[]")
    return None


def _unfold(select: exp.Select) -> None:
    """SELECT unnest(a), unnest(b), generate_subscripts(a, 1): a join with the first one's elements. The others go along
    with it, element by element, as in PostgreSQL.
    """
    driver = ""
    for item in select.expressions:
        inner, part = _called(item.this if isinstance(item, exp.Alias) else item)
        name = function_name(inner)
        if name not in ("unnest", "explode", "generate_subscripts", "generate_series", "_pg_expandarray"):
            continue
        source = _series(inner)
        assert source is not None
        over = next(iter(inner.expressions), None) or inner.this
        value: exp.Expr
        if not driver:
            driver = "unfolded_"
            base = _call("array_json_", over.copy()) if name == "generate_subscripts" else source
            _join(
                select, exp.Table(this=_call("json_each", base), alias=exp.TableAlias(this=exp.to_identifier(driver)))
            )
            value = exp.column("value", table=driver)
        else:
            value = _call("array_at_", source, exp.column("key", table=driver))
        key = exp.column("key", table=driver)
        if name == "generate_subscripts":
            value = _call("subscript_", over.copy(), key)
        elif name == "_pg_expandarray":  # rows of x, the element, and n, its place
            place = exp.Add(this=key, expression=exp.Literal.number(1))
            both = _call("json_object", exp.Literal.string("x"), value, exp.Literal.string("n"), place)
            value = {"x": value, "n": place}.get(part, both)
        alias = item.alias if isinstance(item, exp.Alias) else name
        item.replace(exp.alias_(value, alias, quoted=True))


def _called(node: exp.Expr) -> tuple[exp.Expr, str]:
    """The function that is called, without its schema, and which part of its row is asked for: (f(x)).n"""
    part = ""
    while isinstance(node, (exp.Dot, exp.Paren)):
        if (
            isinstance(node, exp.Dot)
            and isinstance(node.this, exp.Paren)
            and isinstance(node.expression, exp.Identifier)
        ):
            part, node = node.expression.name.lower(), node.this
        else:
            node = node.expression if isinstance(node, exp.Dot) else node.this
    return node, part


def _join(select: exp.Select, table: exp.Table) -> None:
    if select.args.get("from_"):
        select.append("joins", exp.Join(this=table, kind="CROSS"))
    else:
        select.set("from_", exp.From(this=table))


def _rows_of_functions(node: exp.Expr) -> exp.Expr:
    """FROM unnest(a) AS x, LATERAL unnest(a) WITH ORDINALITY AS x(v, n), generate_series(1, n) AS s(i)"""
    call: exp.Expr | None = None
    if isinstance(node, exp.Unnest):
        call = _call("unnest", *node.expressions)
    elif isinstance(node, (exp.Lateral, exp.Table)) and isinstance(node.this, (exp.Func, exp.Anonymous, exp.Dot)):
        call = node.this
    if call is None or (function_name(call) == "json_each"):
        return node
    while isinstance(call, exp.Dot):
        call = call.expression
    if function_name(call) in RELATIONS["pg_catalog"]:  # some relations are functions, too
        return exp.Table(
            this=exp.to_identifier(function_name(call)),
            db=exp.to_identifier("pg_catalog"),
            alias=node.args.get("alias"),
        )
    if isinstance(call, exp.Unnest):
        call = _call("unnest", *call.expressions)
    series = _series(call)
    if series is None:
        return _one_row(node, call)
    alias = node.args.get("alias")
    name = alias.name if isinstance(alias, exp.TableAlias) and alias.this else function_name(call)
    columns = [c.name for c in alias.args.get("columns") or []] if isinstance(alias, exp.TableAlias) else []
    renamed = dict(zip(columns or [name], ("value", "key"), strict=False))
    root = node.find_ancestor(exp.Select)
    if root is not None:
        for column in list(root.find_all(exp.Column)):
            if (
                column.table.lower() in ("", name.lower())
                and column.name in renamed
                and not isinstance(column.parent, exp.Table)
            ):
                value: exp.Expr = exp.column(renamed[column.name], table=name)
                if renamed[column.name] == "key":
                    value = exp.Paren(this=exp.Add(this=value, expression=exp.Literal.number(1)))
                parent = column.parent
                if isinstance(parent, exp.Select) and column.arg_key == "expressions":
                    value = exp.alias_(value, column.name)
                column.replace(value)
    return exp.Table(this=_call("json_each", series), alias=exp.TableAlias(this=exp.to_identifier(name)))


def _one_row(node: exp.Expr, call: exp.Expr) -> exp.Expr:
    """FROM f(x) AS s, where f gives a value: a row with that value."""
    alias = node.args.get("alias")
    name = alias.name if isinstance(alias, exp.TableAlias) and alias.this else function_name(call)
    select = exp.Select(expressions=[exp.alias_(call.copy(), name)])
    return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(name)))


# comparisons with arrays


def _quantified(node: exp.Expr) -> exp.Expr:
    """x = ANY (...), x <> ALL (...)"""
    if not isinstance(node, (exp.EQ, exp.NEQ)):
        return node
    right = node.expression
    if isinstance(right, exp.Anonymous) and str(right.this).upper() in ("ANY", "ALL") and len(right.expressions) == 1:
        many = right.expressions[0]
    elif isinstance(right, (exp.Any, exp.All)):
        many = right.this
    else:
        return node
    while isinstance(many, (exp.Paren, exp.Cast)):
        many = many.this
    found: exp.Expr
    if isinstance(many, exp.Array) and not (len(many.expressions) == 1 and isinstance(many.expressions[0], exp.Select)):
        found = exp.In(this=node.this, expressions=many.expressions)
    elif isinstance(many, (exp.Subquery, exp.Select)):
        inner = many.this if isinstance(many, exp.Subquery) else many
        found = exp.In(this=node.this, query=exp.Subquery(this=inner))
    else:
        found = _call("in_array_", node.this, many)
    return exp.Not(this=found) if isinstance(node, exp.NEQ) else found


# casts


def _casts(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.Cast):
        return node
    to = type_name(node)
    inner: exp.Expr = node.this
    if to.endswith("[]") or to.startswith("_"):
        return inner
    match to:
        case "regclass":
            if isinstance(inner, (exp.Literal, exp.Parameter, exp.Placeholder)):
                return _call("regclass_", inner)
            compared = isinstance(node.parent, (exp.EQ, exp.NEQ, exp.In))
            return inner if compared or _is_cast_to(node.parent, _NUMBERS) else _call("regclass_name_", inner)
        case "regtype":
            if isinstance(inner, exp.Literal):
                return _call("regtype_", inner)
            return inner if _is_cast_to(node.parent, _NUMBERS) else _call("format_type", inner, exp.Null())
        case "regproc" if isinstance(inner, exp.Literal):
            return _call("regproc_", inner)
        case "regproc" | "regprocedure" | "regnamespace" | "regrole" | "regoper" | "regoperator":
            return inner
    if to in _NUMBERS:
        return exp.Cast(this=inner, to=exp.DataType.build("INT"))
    if to in _TEXTS:
        return exp.Cast(this=inner, to=exp.DataType.build("TEXT")) if not isinstance(inner, exp.Literal) else inner
    if to in ("bool", "boolean") and isinstance(inner, exp.Literal):
        return exp.Boolean(this=inner.name.lower() in ("t", "true", "1", "on", "yes"))
    return inner


def type_name(node: exp.Cast) -> str:
    """The type that is cast to, in small letters, without its schema."""
    text = node.to.sql("postgres").lower().replace('"', "")
    text = text.split("(")[0].strip()
    return text.split(".")[-1]


def _is_cast_to(node: exp.Expr | None, names: tuple[str, ...]) -> bool:
    return isinstance(node, exp.Cast) and type_name(node) in names


# the rest


def _rest(node: exp.Expr) -> exp.Expr:
    for kinds, change in _CHANGES:
        if isinstance(node, kinds):
            return change(node)
    name = type(node).__name__
    if name in ("ArrayToString", "StringToArray", "RegexpReplace", "SplitPart", "Format", "JSONObject", "ArraySize"):
        return _by_name(node, name)
    return node


def _by_name(node: exp.Expr, name: str) -> exp.Expr:
    """Functions that sqlglot has nodes for, as calls."""
    called = {
        "ArrayToString": "array_to_string", "StringToArray": "string_to_array", "RegexpReplace": "regexp_replace",
        "SplitPart": "split_part", "Format": "format_", "ArraySize": "array_length",
    }.get(name)  # fmt: skip
    if called is None:
        return node
    order = ("this", "expression", "delimiter", "replacement", "part_index", "modifiers", "null")
    given = [a for key in order if isinstance(a := node.args.get(key), exp.Expr)]
    return _call(called, *given, *node.expressions)


def _like(node: exp.Expr) -> exp.Expr:
    return _call("regex_", node.expression, node.this)


def _ilike(node: exp.Expr) -> exp.Expr:
    return _call("iregex_", node.expression, node.this)


def _array(node: exp.Expr) -> exp.Expr:
    """ARRAY[...] and ARRAY(SELECT ...)"""
    given = node.expressions
    if len(given) == 1 and isinstance(given[0], (exp.Select, exp.Subquery)):
        return _gathered(given[0])
    return _call("array_", *given)


def _gathered(query: exp.Expr) -> exp.Expr:
    inner = query.this if isinstance(query, exp.Subquery) else query
    first = inner.expressions[0] if isinstance(inner, exp.Select) and inner.expressions else None
    name = first.alias_or_name if first is not None and first.alias_or_name else "x"
    if first is not None and not first.alias_or_name:
        first.replace(exp.alias_(first.copy(), "x"))
    agg = _call("coalesce", _call("array_agg", exp.column(name, quoted=True)), exp.Literal.string("{}"))
    select = exp.Select(expressions=[agg]).from_(
        exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("gathered")))
    )
    return exp.Subquery(this=select)


def _anonymous(node: exp.Expr) -> exp.Expr:
    name = str(node.this).lower()
    if name == "array" and len(node.expressions) == 1 and isinstance(node.expressions[0], (exp.Select, exp.Subquery)):
        return _gathered(node.expressions[0])
    if name in ("format", "left"):
        return _call(f"{name}_", *node.expressions)
    return node


def _array_agg(node: exp.Expr) -> exp.Expr:
    inner = node.this
    while isinstance(inner, (exp.Order, exp.Distinct)):
        inner = inner.this if isinstance(inner, exp.Order) else inner.expressions[0]
    return _call("array_agg", inner)


def _string_agg(node: exp.Expr) -> exp.Expr:
    inner = node.this
    while isinstance(inner, (exp.Order, exp.Distinct)):
        inner = inner.this if isinstance(inner, exp.Order) else inner.expressions[0]
    mark = node.args.get("separator") or exp.Literal.string(",")
    while isinstance(mark, exp.Order):
        mark = mark.this
    return _call("string_agg", inner, mark)


def _bracket(node: exp.Expr) -> exp.Expr:
    place = node.expressions[0]
    offset = node.args.get("offset")
    if isinstance(place, exp.Literal) and offset is None and place.name.isdecimal():
        place = exp.Literal.number(whole_number(place.name) + 1)  # sqlglot counts from 0
    return _call("array_item_", node.this.this if isinstance(node.this, exp.Paren) else node.this, place)


def _parameter(node: exp.Expr) -> exp.Expr:
    return exp.Placeholder(this=f"p{node.name}")


_CHANGES: tuple[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr], exp.Expr]], ...] = (
    ((exp.RegexpLike,), _like),
    ((exp.RegexpILike,), _ilike),
    ((exp.ArrayAgg,), _array_agg),
    ((exp.GroupConcat,), _string_agg),
    ((exp.Array,), _array),
    ((exp.Anonymous,), _anonymous),
    ((exp.Bracket,), _bracket),
    ((exp.Parameter,), _parameter),
    ((exp.Collate,), lambda node: node.this),
    ((exp.ByteString,), lambda node: exp.Literal.string(node.name)),  # E'...'
)
"""What is done with nodes of some kinds."""
