"""`(pull ?e [:name {:works/for [:name]}])`: a document about each entity, as in Datomic.

    {"name": "ann", "works/for": [{"name": "acme"}]}

An attribute with at most one value per entity (`semantics="one"`, a column of a table with a key) yields that value,
any other a list; missing attributes are left out. `:works/_for` goes in the other direction, to those that work for it.
Nested patterns are pulled of the values.

Each attribute is joined to the requested entities and grouped by entity, level by level from the inside, so a changed
fact affects only the documents that show it. A document is rebuilt, in Python, when something in it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from everview.datalog.solutions import Relation, Solutions
from everview.datalog.syntax import Place, Pull, Want
from everview.expr import functions
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import joins
from everview.plan.keys import unique_columns
from everview.plan.nodes import Node, Project, PythonReduce
from everview.sql.lists import Documents
from everview.types import JSON, STR

Find = Callable[[str, Place], Relation]
"""Returns the relation of an attribute, which must exist."""

ENTITY = "the entity"
"""The variable's name in errors."""


def pulled(literal: Pull, current: Solutions, find: Find) -> Solutions:
    """The solutions with a document about their entities as a variable."""
    name = literal.entity.name
    documents = _documents(current.distinct([name]).node, literal.wants, find)
    return current.joined(Solutions(documents, (name, literal.variable.name)), literal.place)


def _documents(entities: Node, wants: tuple[Want, ...], find: Find) -> Node:
    """(entity, document) for each of some distinct entities."""
    entity = joins.refs(entities.types)[0]
    made: Node = entities
    parts: list[Expr] = []
    for want in wants:
        if want.attribute is None:
            parts.append(functions.call("json_object", Literal(STR, want.key), entity))
            continue
        found = _attribute(entities, want, find)
        on = joins.Condition((joins.canonical(entity),), (joins.canonical(joins.refs(found.types)[0]),))
        made = joins.join(made, found, on, "left")
        part = ColumnRef(made.types[-1], len(made.types) - 1)
        parts.append(functions.call("coalesce", part, functions.call("json_object")))
    return Project(made, (entity, reduce(lambda a, b: functions.call("json_concat", a, b), parts)))


def _attribute(entities: Node, want: Want, find: Find) -> Node:
    """(entity, {attribute: what it is}) for the entities that have the attribute."""
    assert want.attribute is not None
    relation = find(want.attribute, want.place)
    if len(relation.columns) != 2:
        what = f"{want.attribute} has {len(relation.columns)} columns, and an attribute has an entity and a value"
        raise want.place.error("E_ARITY", what, "pull attributes, or columns of a table with a key: :table/column")
    single = not want.back and frozenset({0}) in unique_columns(relation.node)
    columns = ("v", ENTITY) if want.back else (ENTITY, "v")
    facts = Solutions(entities, (ENTITY,)).joined(Solutions(relation.node, columns), want.place).taken([ENTITY, "v"])
    if want.nested is None:
        value = functions.call("to_json", ColumnRef(facts.node.types[1], 1))
    else:
        below = Solutions(_documents(facts.distinct(["v"]).node, want.nested, find), ("v", "d"))
        facts = facts.joined(below, want.place).taken([ENTITY, "d"])
        value = ColumnRef(facts.node.types[1], 1)
    node: Node = Project(facts.node, (ColumnRef(facts.node.types[0], 0), value))
    if not single:
        node = PythonReduce(node, (0,), Documents(1, order=()), (JSON,))
    entity, found = joins.refs(node.types)
    return Project(node, (entity, functions.call("json_object", Literal(STR, want.key), found)))
