"""Forms that mean the same as others: they are written as those before anything is bound.

    percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY x)    an array of percentiles, NULL if there are no rows
    (a, b) NOT IN (SELECT ...), and IN with rows as a value        EXISTS, with the NULLs of SQL's logic
    (a, b) = ANY (SELECT ...), (a, b) <> ALL (SELECT ...)          IN and NOT IN
    (a, b) < (SELECT x, y ...)                                     a comparison with ((SELECT x ...), (SELECT y ...))
    jsonb_to_recordset(j) AS r(x int, y text)                      a derived table over jsonb_array_elements(j)
    jsonb_to_record(j) AS r(x int, y text)                         a derived table of one row
    x IN (VALUES (1), (2)), and behind ANY and ALL                 a query over those rows
    GROUP BY window(ts, '10 minutes'), window.start                GROUP BY HOP(ts, slide, size), HOP_START

A pattern finds out whether a text may have one of them, so that others are not searched.
"""

from __future__ import annotations

import re

from sqlglot import exp

from everview.sql.text.annotations import WINDOW
from everview.sql.text.tokens import STOOD_FOR, words_of

_MAYBE = re.compile(
    r"percentile_(cont|disc)\s*\(\s*array|\)\s*(not\s+)?in\s*\(|to_record(set)?\s*\("
    r"|\bwindo[w_]\s*\(|\b(in|any|some|all)\s*\(\s*values\b"
    r"|\)\s*[=<>!]+\s*((any|some|all)\s*)?\(\s*(select|with)",
    re.IGNORECASE,
)

_PERCENTILES = ("percentile_cont", "percentile_disc")
_RECORDS = ("json_to_record", "jsonb_to_record", "json_to_recordset", "jsonb_to_recordset")
_CONDITIONS = (exp.Where, exp.Having, exp.Qualify, exp.Join)
"""What a condition is part of, through ANDs and brackets."""


def rephrased(tree: exp.Expr, text: str) -> exp.Expr:
    """The tree with such forms written as others.

    >>> import sqlglot
    >>> text = "SELECT * FROM jsonb_to_record(j) AS r(x int)"
    >>> rephrased(sqlglot.parse_one(text, read="postgres"), text).sql("postgres")
    "SELECT * FROM LATERAL (SELECT CAST(JSONB_EXTRACT_PATH_TEXT(j, 'x') AS INT) AS x) AS r"
    """
    if _MAYBE.search(text) is None:
        return tree
    for among in list(tree.find_all(exp.In, exp.Any, exp.Anonymous)):
        _listed(among)
    for compared in list(tree.find_all(*_COMPARISONS)):
        _comparison(compared)
    for group in list(tree.find_all(exp.Group)):
        _windows(group)
    for node in list(tree.find_all(exp.WithinGroup, exp.In, exp.Table, exp.Lateral)):
        if isinstance(node, exp.WithinGroup):
            _percentiles(node)
        elif isinstance(node, exp.In):
            _membership(node)
        elif isinstance(node, (exp.Table, exp.Lateral)):
            _records(node)
    return tree


# ---- percentiles


def _percentiles(node: exp.WithinGroup) -> None:
    inner = node.this
    name = inner.name.lower() if isinstance(inner, exp.AnonymousAggFunc) else ""
    if name not in _PERCENTILES or len(inner.expressions) != 1 or not isinstance(inner.expressions[0], exp.Array):
        return
    whole = node.parent if isinstance(node.parent, exp.Filter) else node
    ordered = node.expression.expressions[0].this

    def filtered(aggregate: exp.Expr) -> exp.Expr:
        return exp.Filter(this=aggregate, expression=whole.expression.copy()) if whole is not node else aggregate

    each = []
    for fraction in inner.expressions[0].expressions:
        one = node.copy()
        one.this.set("expressions", [fraction.copy()])
        each.append(filtered(one))
    some = exp.GT(this=filtered(exp.Count(this=ordered.copy(), big_int=True)), expression=exp.Literal.number(0))
    made: exp.Expr = exp.Case(ifs=[exp.If(this=some, true=exp.Array(expressions=each))])
    if isinstance(whole.parent, exp.Select) and whole.arg_key == "expressions":
        made = exp.alias_(made, name)
    whole.replace(made)


# ---- Spark's windows of time


def _windows(group: exp.Group) -> None:
    """window(ts, size [, slide [, offset]]) among the keys. Rows without a time are in no window, as in HOP."""
    calls = [k for k in group.expressions if isinstance(k, exp.Anonymous) and k.name.lower() in ("window", WINDOW)]
    for call in calls:
        call.set("this", "window")
    select = group.parent
    if len(calls) != 1 or not isinstance(select, exp.Select) or not 2 <= len(calls[0].expressions) <= 4:
        return
    moment, *lengths = calls[0].expressions
    named = any(table.alias_or_name.lower() == "window" for table in select.find_all(exp.Table, exp.Subquery))
    if named or not all(isinstance(each, exp.Literal) and each.is_string for each in lengths):
        return
    size, slide, *offset = [exp.Interval(this=e.copy()) for e in (lengths if len(lengths) > 1 else lengths * 2)]
    args = [moment, slide, size, *offset]

    def hop(name: str, at: exp.Expr) -> exp.Expr:
        made = exp.Anonymous(this=name, expressions=[a.copy() for a in args])
        made.meta.update(at.meta)
        made.meta[STOOD_FOR] = words_of(at)
        return made

    for column in list(select.find_all(exp.Column)):
        if column.table.lower() != "window" or column.name.lower() not in ("start", "end"):
            continue
        made = hop(f"hop_{column.name.lower()}", column)
        is_output = column.parent is select and column.arg_key == "expressions"
        column.replace(exp.alias_(made, column.name.lower()) if is_output else made)
    calls[0].replace(hop("hop", calls[0]))


# ---- VALUES in the place of a query


def _listed(node: exp.Expr) -> None:
    """VALUES behind IN, ANY or ALL."""
    if isinstance(node, exp.In):
        listed = node.expressions
        if len(listed) == 1 and isinstance(listed[0], exp.Values):
            node.set("query", exp.Subquery(this=_over(listed[0])))
            node.set("expressions", None)
    elif isinstance(node, exp.Anonymous):  # ALL (VALUES ...) is parsed as a call
        listed = node.expressions
        if node.name.upper() == "ALL" and len(listed) == 1 and isinstance(listed[0], exp.Values):
            node.replace(exp.All(this=exp.Subquery(this=_over(listed[0]))))
    elif isinstance(node.this, exp.Subquery) and isinstance(node.this.this, exp.Values):
        node.this.set("this", _over(node.this.this))


def _over(rows: exp.Values) -> exp.Select:
    """SELECT * FROM (VALUES ...)"""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=rows.copy()))


# ---- rows in queries

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def _comparison(node: exp.Expr) -> None:
    """A row compared with the rows, or with the row, of a query."""
    row, other = node.this, node.expression
    if not isinstance(row, exp.Tuple):
        return
    if isinstance(other, (exp.Any, exp.All)) and isinstance(other.this, (exp.Subquery, exp.Select)):
        query = other.this if isinstance(other.this, exp.Subquery) else exp.Subquery(this=other.this)
        among = exp.In(this=row, query=query)
        if isinstance(node, exp.EQ) and isinstance(other, exp.Any):
            node.replace(among)
        elif isinstance(node, exp.NEQ) and isinstance(other, exp.All):
            node.replace(exp.Not(this=among))
        return
    select = other.this if isinstance(other, exp.Subquery) else None
    if isinstance(select, exp.Select) and len(select.expressions) == len(row.expressions):
        other.replace(exp.Tuple(expressions=[_only(other, i) for i in range(len(select.expressions))]))


def _only(query: exp.Subquery, at: int) -> exp.Expr:
    """A query with one of its outputs."""
    one = query.copy()
    one.this.set("expressions", [one.this.expressions[at]])
    return one


def _membership(node: exp.In) -> None:
    if not isinstance(node.this, exp.Tuple) or not isinstance(node.args.get("query"), exp.Subquery):
        return
    negated = isinstance(node.parent, exp.Not) or bool(node.args.get("negate"))
    whole = node.parent if isinstance(node.parent, exp.Not) else node
    is_condition = _is_condition(whole)
    if is_condition and not negated:
        return  # a semi-join
    values = node.this.expressions
    names = [f"_in{i}" for i in range(len(values))]
    pairs = [exp.EQ(this=v.copy(), expression=exp.column(n)) for v, n in zip(values, names, strict=True)]
    equal = exp.and_(*pairs)
    unknown = exp.Is(this=exp.paren(equal.copy()), expression=exp.null())
    here = exp.or_(*(exp.Is(this=v.copy(), expression=exp.null()) for v in values))
    there = exp.or_(*(exp.Is(this=exp.column(n), expression=exp.null()) for n in names))

    def exists(*conditions: exp.Expr) -> exp.Expr:
        alias = exp.TableAlias(this=exp.to_identifier("_in"), columns=[exp.to_identifier(n) for n in names])
        rows = exp.Subquery(this=node.args["query"].this.copy(), alias=alias)
        return exp.Exists(this=exp.select(exp.Literal.number(1)).from_(rows).where(*(c.copy() for c in conditions)))

    found = exists(equal)
    open_ = [exists(exp.paren(there), unknown), exists(exp.paren(here), unknown)]
    if is_condition:
        whole.replace(exp.paren(exp.and_(*(exp.Not(this=e) for e in (found, *open_)))))
        return
    ifs = [
        exp.If(this=found, true=exp.Boolean(this=not negated)),
        exp.If(this=exp.or_(*open_), true=exp.cast(exp.null(), "boolean")),
    ]
    whole.replace(exp.Case(ifs=ifs, default=exp.Boolean(this=negated)))


def _is_condition(node: exp.Expr) -> bool:
    above = node.parent
    while isinstance(above, (exp.And, exp.Paren)):
        above = above.parent
    return isinstance(above, _CONDITIONS) and not isinstance(above.parent, exp.Filter)  # which is a value


# ---- records of JSON


def _records(node: exp.Table | exp.Lateral) -> None:
    call, alias = node.this, node.args.get("alias")
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _RECORDS or len(call.expressions) != 1:
        return
    if alias is None:
        return
    columns = alias.args.get("columns")
    if not columns or not all(isinstance(c, exp.ColumnDef) and c.kind is not None for c in columns):
        return
    document = call.expressions[0].copy()
    if isinstance(document, exp.Literal):
        document = exp.cast(document, "jsonb")
    query = exp.Select()
    if call.name.lower().endswith("set"):
        elements = exp.Anonymous(this="jsonb_array_elements", expressions=[document])
        document = exp.column("_element", table="_elements")
        named = exp.TableAlias(this=exp.to_identifier("_elements"), columns=[exp.to_identifier("_element")])
        query = query.from_(exp.Table(this=elements, alias=named))
    query.set("expressions", [exp.alias_(_value(document, c), c.this.copy()) for c in columns])
    made = exp.Lateral(
        this=exp.Subquery(this=query), view=False, outer=False, alias=exp.TableAlias(this=alias.this.copy())
    )
    node.replace(made)


def _value(document: exp.Expr, column: exp.ColumnDef) -> exp.Expr:
    """A member of a document as a column's type."""
    name = column.name if column.this.args.get("quoted") else column.name.lower()
    member = _call("jsonb_extract_path", document.copy(), exp.Literal.string(name))
    kind = column.kind
    assert kind is not None
    if kind.this in (exp.DType.JSON, exp.DType.JSONB):
        return exp.Nullif(this=member, expression=exp.cast(exp.Literal.string("null"), "jsonb"))  # no JSON null
    if kind.this != exp.DType.ARRAY:
        text = _call("jsonb_extract_path_text", document.copy(), exp.Literal.string(name))
        return exp.Cast(this=text, to=kind.copy())
    items = exp.TableAlias(this=exp.to_identifier("_items"), columns=[exp.to_identifier("_item")])
    listed = exp.Table(this=_call("jsonb_array_elements_text", member), alias=items)
    item = exp.Cast(this=exp.column("_item"), to=kind.expressions[0].copy())
    is_array = exp.EQ(this=_call("jsonb_typeof", member.copy()), expression=exp.Literal.string("array"))
    return exp.Case(ifs=[exp.If(this=is_array, true=exp.Array(expressions=[exp.select(item).from_(listed)]))])


def _call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))
