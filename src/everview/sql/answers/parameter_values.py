"""Parameters of one call: `$1` with a type, and a value on execution.

`db.prepare` maintains one dataflow for all values (`everview.sql.answers.prepared`). A statement that a client prepares
and runs occasionally is different: it is bound on preparation, to infer the types of its parameters and columns, and
again with the values as constants on each execution. It may be any statement.

An unspecified type is that of the operand a parameter is compared with, of its target column, or of LIMIT; otherwise
text, as in PostgreSQL.

>>> import everview as ev
>>> from everview.sql.statements import Statements
>>> db = ev.connect()
>>> _ = db.sql("CREATE TABLE t (x int, d date)")
>>> given = learned(Statements(db), "INSERT INTO t VALUES ($1 , $2 )", {})
>>> given.types_of(2)
[int, date]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.errors import EverviewError
from everview.expr.nodes import Literal
from everview.language.relation import relation_of
from everview.sql.answers.parameters import Learned, Parameters
from everview.sql.ddl import schemas
from everview.sql.scalar import names
from everview.types import INT, STR, DataType

if TYPE_CHECKING:
    from everview.sql.statements import Shape, Statements


class Given(Parameters):
    """Parameters as constants: NULL while only their types are known."""

    def __init__(self, types: Mapping[str, DataType], values: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.known = dict(types)
        self.oids: dict[str, int] = {}
        """the client's type ids, where several of ours correspond"""
        self.values = values
        """None while a statement is only analysed: then any number of parameters may be untyped"""

    def types_of(self, count: int) -> list[DataType]:
        """The types of $1 up to $count; an unused one is a text."""
        return [self.known.get(str(i + 1), STR) for i in range(count)]

    def lacks_type(self, node: exp.Expr) -> bool:
        """Whether an expression is a parameter without a known type."""
        return isinstance(node, exp.Parameter) and node.name not in self.known

    def constant(self, node: exp.Parameter) -> Literal | None:
        """The parameter's value."""
        if node.name not in self.known:
            raise Learned(node.name, STR)
        declared = self.known[node.name]
        value = None if self.values is None else self.values.get(node.name)
        node.this.name  # noqa: B018  # it is read: `everview.sql.text.consumed_parts`
        return Literal(declared.optional(value is None), value)

    def are_read(self, node: exp.Expr, env: Mapping[str, Any]) -> bool:
        """They are constants, so nothing has to be joined to them."""
        return False


def learned(sql: Statements, text: str, types: Mapping[str, DataType]) -> Given:
    """The types of a statement's parameters, starting with the explicit ones."""
    return bound(sql, text, types)[0]


def bound(sql: Statements, text: str, types: Mapping[str, DataType]) -> tuple[Given, Shape | None]:
    """A statement's parameters with their types, and its columns; None if it returns no rows. Does not execute it."""
    given = Given(types)
    sql.parameters = given
    try:
        while True:
            try:
                return given, sql.shape(text, lambda node: _places(sql, node, given))
            except Learned as found:
                given.known[found.name] = found.type
            except EverviewError as error:
                if error.code != "E_LITERAL" or given.values is not None:
                    raise
                given.values = _Samples(given.known)  # NULL is not enough where a constant is inspected
    finally:
        sql.parameters = None


class _Samples(dict[str, Any]):
    """A sample value for each parameter, before values are given."""

    def __init__(self, known: Mapping[str, DataType]) -> None:
        super().__init__()
        self._known = known

    def get(self, key: str, default: Any = None) -> Any:
        return {"str": "", "int": 1, "float": 1.0, "bool": True}.get(self._known[key].kind, default)


def _places(sql: Statements, node: exp.Expr, given: Given) -> None:
    """Infer the types of parameters from columns or numeric positions."""
    for parameter, declared in _wanted(sql, node):
        if given.lacks_type(parameter):
            given.known[parameter.name] = declared.optional(False)


def _wanted(sql: Statements, node: exp.Expr) -> Iterator[tuple[exp.Expr, DataType]]:
    for found in node.find_all(exp.Insert, exp.Update, exp.Limit, exp.Offset, exp.Fetch):
        args = dict.copy(found.args)
        if isinstance(found, exp.Insert):
            yield from _inserted(sql, args)
        elif isinstance(found, exp.Update):
            yield from _assigned(_columns(sql, args.get("this")), args.get("expressions") or [])
        else:
            for part in ("expression", "count"):
                if isinstance(args.get(part), exp.Parameter):
                    yield args[part], INT


def _inserted(sql: Statements, args: dict[str, Any]) -> Iterator[tuple[exp.Expr, DataType]]:
    target = args["this"]
    table = dict.get(target.args, "this") if isinstance(target, exp.Schema) else target
    columns = _columns(sql, table)
    listed = list(columns)
    if isinstance(target, exp.Schema):
        listed = [names.spelled(_name(c), listed) for c in dict.get(target.args, "expressions") or []]
    rows = args.get("expression")
    for row in _rows(rows):
        for item, column in zip(row, listed, strict=False):
            if isinstance(item, exp.Parameter) and column in columns:
                yield item, columns[column]
    conflict = args.get("conflict")
    if conflict is not None:
        yield from _assigned(columns, dict.get(conflict.args, "expressions") or [])


def _rows(node: Any) -> Iterator[list[exp.Expr]]:
    """The inserted values: each row of VALUES, or the SELECT list."""
    if isinstance(node, exp.Values):
        for row in dict.get(node.args, "expressions") or []:
            yield (dict.get(row.args, "expressions") or []) if isinstance(row, exp.Tuple) else [row]
    elif isinstance(node, exp.Select):
        yield dict.get(node.args, "expressions") or []


def _assigned(columns: Mapping[str, DataType], settings: list[exp.Expr]) -> Iterator[tuple[exp.Expr, DataType]]:
    for setting in settings:
        if not isinstance(setting, exp.EQ):
            continue
        column, value = dict.get(setting.args, "this"), dict.get(setting.args, "expression")
        pairs = [(column, value)]
        if isinstance(column, exp.Tuple) and isinstance(value, exp.Tuple):
            both = (dict.get(n.args, "expressions") for n in (column, value))
            pairs = list(zip(*both, strict=False))
        for one, other in pairs:
            name = names.spelled(_name(one), list(columns))
            if isinstance(other, exp.Parameter) and name in columns:
                yield other, columns[name]


def _name(node: Any) -> str:
    """A name, without marking it as read."""
    while isinstance(node, exp.Expr) and not isinstance(node, exp.Identifier):
        node = dict.get(node.args, "this")
    return str(dict.get(node.args, "this")) if isinstance(node, exp.Identifier) else ""


def _columns(sql: Statements, target: Any) -> dict[str, DataType]:
    if not isinstance(target, exp.Table):
        return {}
    schema = dict.get(target.args, "db")
    name = _name(target) if schema is None else f"{_name(schema)}.{_name(target)}"
    table = sql.core.catalog.tables.get(schemas.found(sql.core, name, sql.session.tables))
    return {} if table is None else {c.name: c.type for c in relation_of(table).columns}
