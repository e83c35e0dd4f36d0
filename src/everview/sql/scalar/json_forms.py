"""JSON operators: extraction, tests, and updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.immutable import FrozenList
from everview.expr import functions
from everview.expr.jsonpath_parser import PathSyntax, compiled
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import constants
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.roundings import JAVA
from everview.sql.scalar.type_names import in_words
from everview.sql.text import consumed_parts
from everview.types import JSON, STR, array

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


STRS = array(STR)


def on_jsonextract(scalars: Scalars, node: exp.JSONExtract) -> Expr:
    """j -> 'key', j -> 0"""
    return _key(scalars, node, "json_get")


def on_jsonextractscalar(scalars: Scalars, node: exp.JSONExtractScalar) -> Expr:
    """j ->> 'key'"""
    return _key(scalars, node, "json_get_text")


def _key(scalars: Scalars, node: exp.Expr, op: str) -> Expr:
    path = path_of(scalars, node)
    if path is not None:
        return scalars.call(op.replace("get", "path"), _any_document(scalars, node.this), path)
    value = document(scalars, node.this)
    given = node.expression
    key = scalars.bind(given)
    return scalars.call(op, value, key)


def document(scalars: Scalars, node: exp.Expr) -> Expr:
    """A JSON value; a quoted constant is read as one."""
    value = scalars.bind(node)
    if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None:
        return constants.text_as(value.value, JSON, node, scalars.source)
    if value.type.kind != "json":
        raise scalars.source.error(node, "E_TYPE", f"{in_words(value.type)} is not JSON", "cast it: x::jsonb")
    return value


def on_jsonbextract(scalars: Scalars, node: exp.JSONBExtract) -> Expr:
    """j #> '{a,b}'"""
    return scalars.call("json_path", document(scalars, node.this), _path(scalars, node.expression))


def on_jsonbextractscalar(scalars: Scalars, node: exp.JSONBExtractScalar) -> Expr:
    """j #>> '{a,b}'"""
    return scalars.call("json_path_text", document(scalars, node.this), _path(scalars, node.expression))


def _path(scalars: Scalars, node: exp.Expr) -> Expr:
    value = scalars.bind(node)
    if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None:
        return constants.text_as(value.value, STRS, node, scalars.source)
    return value


def on_jsonbcontainstopkey(scalars: Scalars, node: exp.Expr) -> Expr:
    """j ? 'key'"""
    return scalars.call("json_has", document(scalars, node.this), scalars.bind(node.expression))


def on_jsonbcontainsanytopkeys(scalars: Scalars, node: exp.Expr) -> Expr:
    """j ?| array"""
    return scalars.call("json_has_any", document(scalars, node.this), _path(scalars, node.expression))


def on_jsonbcontainsalltopkeys(scalars: Scalars, node: exp.Expr) -> Expr:
    """j ?& array"""
    return scalars.call("json_has_all", document(scalars, node.this), _path(scalars, node.expression))


def on_jsonbdeleteatpath(scalars: Scalars, node: exp.Expr) -> Expr:
    """j #- '{a,b}'"""
    return scalars.call("json_delete_path", document(scalars, node.this), _path(scalars, node.expression))


def on_jsonbpathexists(scalars: Scalars, node: exp.JSONBPathExists) -> Expr:
    """j @? path"""
    return on_path(scalars, "jsonpath_exists_quietly", node.this, node.expression)


def on_matchagainst(scalars: Scalars, node: exp.MatchAgainst) -> Expr:
    """j @@ path"""
    if len(node.expressions) != 1 or node.args.get("modifier"):
        raise scalars.refused(node)
    return on_path(scalars, "jsonpath_match_quietly", node.expressions[0], node.this)


def on_path(scalars: Scalars, op: str, value: exp.Expr, path: exp.Expr) -> Expr:
    """A function of a JSON value and a path; an invalid constant path is an error in the text."""
    bound = scalars.bind(path)
    if isinstance(bound, Literal) and isinstance(bound.value, str):
        try:
            compiled(bound.value)
        except PathSyntax as error:
            raise scalars.source.error(path, "E_PATTERN", f"the path {bound.value!r} cannot be read: {error}") from None
    return scalars.call(op, document(scalars, value), bound)


def without(scalars: Scalars, a: Expr, b: Expr, node: exp.Sub) -> Expr | None:
    """j - 'key', j - 0, j - array; None if it is something else."""
    return scalars.call("json_delete", a, b) if a.type.kind == "json" else None


def path_of(scalars: Scalars, node: exp.Expr) -> Expr | None:
    """The steps of a path such as '$.a[0].b', which sqlglot has read; None if it is something else."""
    path = node.args["expression"]
    if not isinstance(path, exp.JSONPath):
        return None
    steps = []
    for step in path.expressions[1:]:
        is_step = isinstance(step, (exp.JSONPathKey, exp.JSONPathSubscript)) and isinstance(step.this, (str, int))
        if not is_step:
            raise scalars.source.refuse(node, "this path is not supported here", "names and indexes: '$.a[0].b'")
        steps.append(str(step.this))
        step.args.get("this")
    consumed_parts.understood(path)
    return Literal(array(STR), FrozenList(steps))


def _any_document(scalars: Scalars, node: exp.Expr) -> Expr:
    """A JSON value, or a text that is one; what is not JSON is NULL in Spark"""
    value = scalars.bind(node)
    if value.type.kind != "str" or isinstance(value, Literal):
        return document(scalars, node)
    read = functions.cast(value, JSON.optional(value.type.nullable))
    return scalars.call("attempt", read, value) if scalars.source.dialect in JAVA else read


FORMS: Forms = {
    exp.JSONExtract: on_jsonextract,
    exp.JSONExtractScalar: on_jsonextractscalar,
    exp.JSONBExtract: on_jsonbextract,
    exp.JSONBExtractScalar: on_jsonbextractscalar,
    exp.JSONBContainsTopKey: on_jsonbcontainstopkey,
    exp.JSONBContainsAnyTopKeys: on_jsonbcontainsanytopkeys,
    exp.JSONBContainsAllTopKeys: on_jsonbcontainsalltopkeys,
    exp.JSONBDeleteAtPath: on_jsonbdeleteatpath,
    exp.JSONBPathExists: on_jsonbpathexists,
    exp.MatchAgainst: on_matchagainst,
}
