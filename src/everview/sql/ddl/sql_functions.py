"""CREATE FUNCTION ... LANGUAGE SQL: functions written in SQL, inlined where they are called.

    CREATE FUNCTION taxed(price decimal, rate decimal) RETURNS decimal(12, 2)
    LANGUAGE SQL IMMUTABLE AS $$ SELECT price * (1 + rate) $$

The body is a query of one value: an expression (`SELECT x + 1`, or `RETURN x + 1`), or a query over tables. It is bound
when the function is created, so errors in it are reported then, and again at every call: an expression with the
arguments substituted, a query as a correlated subquery. A view that calls it records the function's name, and the
function cannot be replaced or dropped while the view exists (CASCADE drops both). Functions are stored in the catalog
with their text and its dialect.

The statement is parsed from its tokens: sqlglot supports too little of its syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError

from everview.codes.digits import whole_number
from everview.errors import PlanError, did_you_mean
from everview.expr import functions
from everview.expr.nodes import Expr
from everview.expr.nodes import Literal as Constant
from everview.plan import nodes as plan
from everview.plan.nodes import Project
from everview.session.names.entries import FunctionMade
from everview.session.rights.principal import Anybody
from everview.sql.ddl import function_arguments
from everview.sql.rights import policies
from everview.sql.scalar import casts, names
from everview.sql.select import row_functions
from everview.sql.select.scopes import HIDDEN_FIELD, Field, Relation, Scope
from everview.sql.text import consumed_parts, keywords, statement_reader
from everview.sql.text.call_names import AGGREGATES, SCALARS, TABLES
from everview.sql.text.dialects import Everview
from everview.sql.text.error_positions import QUERY, Source, has_query
from everview.types import INT, DataType

if TYPE_CHECKING:
    from everview.session.names.catalog import Catalog
    from everview.sql.scalar.scalars import Scalars
    from everview.sql.select.compiler import Compiler
    from everview.sql.statements import Do, Statements

_STRINGS = (TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING)


def is_definition(statement: statement_reader.Statement) -> bool:
    """Whether a statement begins with CREATE [OR REPLACE] FUNCTION."""
    words = [t.text.upper() for t in statement.tokens[:4]]
    return words[:2] == ["CREATE", "FUNCTION"] or words == ["CREATE", "OR", "REPLACE", "FUNCTION"]


class _Reader:
    """The tokens of a CREATE FUNCTION, one after the other."""

    def __init__(self, statement: statement_reader.Statement) -> None:
        self.source = statement.source()
        self.tokens = list(statement.tokens)
        self.at = 0

    def word(self) -> str:
        return self.tokens[self.at].text.upper() if self.at < len(self.tokens) else ""

    def take(self) -> Token:
        if self.at >= len(self.tokens):
            raise self.error("the statement ends too early", self.tokens[-1])
        self.at += 1
        return self.tokens[self.at - 1]

    def skip(self, *words: str) -> bool:
        """Skip these words if they are next."""
        ahead = [t.text.upper() for t in self.tokens[self.at : self.at + len(words)]]
        if ahead != list(words):
            return False
        self.at += len(words)
        return True

    def need(self, *words: str) -> None:
        if not self.skip(*words):
            raise self.error(f"{' '.join(words)} is missing", hint=keywords.did_you_mean(self.word(), words))

    def error(self, what: str, token: Token | None = None, hint: str = "") -> PlanError:
        token = token or self.tokens[min(self.at, len(self.tokens) - 1)]
        return self.source.error_at(token.start, "E_SYNTAX", what, hint or HINT)

    def text(self, first: int, last: int) -> str:
        """The text from one token to before another."""
        return self.source.text[self.tokens[first].start : self.tokens[last - 1].end + 1]


HINT = "CREATE FUNCTION f(x int) RETURNS int LANGUAGE SQL AS $$ SELECT x + 1 $$"


def create(sql: Statements, statement: statement_reader.Statement) -> None:
    """CREATE [OR REPLACE] FUNCTION"""
    reader = _Reader(statement)
    sql.refuse_in_transaction(None, reader.source)
    reader.need("CREATE")
    replaced = reader.skip("OR", "REPLACE")
    reader.need("FUNCTION")
    name = reader.take()
    made, body_at = _read(reader, name.text.lower(), sql.dialect)
    _check_name(sql, made.name, name, replaced, reader.source)
    _check(sql, made, reader, body_at)
    sql.core.definitions.functions.add(made)
    if replaced:
        policies.read_again(sql, made.name)


def _read(reader: _Reader, name: str, dialect: str) -> tuple[FunctionMade, int]:
    """The function, and the offset of its body in the text."""
    parameters, defaults = _parameters(reader)
    reader.need("RETURNS")
    rows = reader.word() in ("TABLE", "SETOF")
    returns, columns = _returned_rows(reader) if rows else (_returns(reader), [])
    language, body, body_at, strict = "", None, 0, False
    told: set[str] = set()
    while reader.word():
        kind = _SAME.get(reader.word(), reader.word())
        if kind in told:
            raise reader.error(f"{reader.word()}: this is said twice", hint="leave one of them out")
        told.add(kind)
        if reader.skip("LANGUAGE"):
            language = reader.take().text.upper()
            if language != "SQL":
                raise reader.source.error_at(
                    reader.tokens[reader.at - 1].start,
                    "E_UNSUPPORTED",
                    f"functions are written in SQL, not {language}",
                    keywords.did_you_mean(language, ("SQL",)) or "LANGUAGE SQL; db.function adds functions in Python",
                )
        elif reader.skip("STRICT") or reader.skip("RETURNS", "NULL", "ON", "NULL", "INPUT"):
            strict = True
        elif reader.word() in ("IMMUTABLE", "STABLE", "VOLATILE", "LEAKPROOF"):
            reader.take()
        elif reader.skip("CALLED", "ON", "NULL", "INPUT"):
            strict = False
        elif reader.skip("PARALLEL") or reader.skip("COST"):
            reader.take()
        elif reader.skip("AS"):
            token = reader.take()
            if token.token_type not in _STRINGS:
                raise reader.error("the body is a quoted text", token)
            body = token.text
            body_at = reader.source.text.index(body, token.start) if body in reader.source.text else token.start
        elif reader.skip("RETURN"):
            first, reader.at = reader.at, len(reader.tokens)
            if first == reader.at:
                raise reader.error("an expression is missing after RETURN")
            expression = reader.text(first, reader.at)
            body = f"SELECT {expression}"
            body_at = reader.tokens[first].start - len("SELECT ")
        else:
            hint = keywords.did_you_mean(reader.word(), tuple(_AFTER_TYPE))
            raise reader.error(f"{reader.word()} is not expected here", hint=hint)
    if body is None:
        raise reader.error("the function has no body")
    text = body.rstrip().removesuffix(";")
    return FunctionMade(
        name, tuple(parameters), returns, text, strict, dialect, tuple(defaults), rows, tuple(columns)
    ), body_at


_SAME = {"IMMUTABLE": "VOLATILE", "STABLE": "VOLATILE", "STRICT": "CALLED", "RETURNS": "CALLED", "RETURN": "AS"}
"""Options that say the same thing in other words, each of which can be given once."""

_AFTER_TYPE = {"LANGUAGE", "STRICT", "RETURNS", "IMMUTABLE", "STABLE", "VOLATILE", "LEAKPROOF", "CALLED", "PARALLEL",
               "COST", "AS", "RETURN"}  # fmt: skip


def _returned_rows(reader: _Reader) -> tuple[str, list[tuple[str, str]]]:
    """TABLE (x int, y text): the columns; SETOF int: one without a name; SETOF t: none, but those of the table"""
    first = reader.at
    if reader.skip("SETOF"):
        text = _type(reader, lambda: reader.word() in _AFTER_TYPE or not reader.word())
        return text, [("", text)] if _is_type(text) else []
    reader.need("TABLE")
    columns, _ = _parameters(reader)
    if not columns or any(not name for name, _ in columns):
        raise reader.error("RETURNS TABLE lists names and types", reader.tokens[first])
    return reader.text(first, reader.at), columns


def _parameters(reader: _Reader) -> tuple[list[tuple[str, str]], list[str]]:
    """(name, type) of each, and the defaults of the last; without a name it can only be used as $1, $2, ..."""
    reader.need("(")
    found: list[tuple[str, str]] = []
    defaults: list[str] = []
    while not reader.skip(")"):
        reader.skip("IN")
        if reader.at >= len(reader.tokens):
            raise reader.error("the list of parameters is not closed")
        first = reader.tokens[reader.at]
        if first.text.upper() in ("OUT", "INOUT", "VARIADIC"):
            raise reader.error(f"{first.text.upper()} parameters are not supported", first)
        whole = _type(reader, lambda: reader.word() in (",", ")", "DEFAULT", "=", ""))
        if reader.skip("DEFAULT") or reader.skip("="):
            defaults.append(_type(reader, lambda: reader.word() in (",", ")")))
        elif defaults:
            raise reader.error("parameters behind one with a default have defaults, too", first)
        if _is_type(whole):
            found.append(("", whole))
        else:
            name, _, kind = whole.partition(" ")
            found.append((first.text, kind.strip()))
            if not kind or not _is_type(kind):
                hint = names.type_hint(kind or name, reader.source)
                at = reader.tokens[reader.tokens.index(first) + bool(kind)]
                raise reader.error(f"there is no type {kind or name}", at, hint)
        reader.skip(",")
    named = [n.lower() for n, _ in found if n]
    for name in named:
        if named.count(name) > 1:
            raise reader.error(f"two parameters are called {name}")
    return found, defaults


def _type(reader: _Reader, ends: Callable[[], bool]) -> str:
    """The text of a type, including brackets."""
    first, depth = reader.at, 0
    while reader.word() and (depth or not ends()):
        depth += (reader.word() == "(") - (reader.word() == ")")
        reader.take()
    if first == reader.at:
        raise reader.error("a type is missing")
    return reader.text(first, reader.at)


def _returns(reader: _Reader) -> str:
    """The type behind RETURNS."""
    first = reader.at
    text = _type(reader, lambda: reader.word() in _AFTER_TYPE or not reader.word())
    if _is_type(text):
        return text
    for token in reader.tokens[first + 1 : reader.at]:
        hint = keywords.did_you_mean(token.text, tuple(_AFTER_TYPE))
        if hint:
            raise reader.error(f"{token.text} is not expected here", token, hint)
    hint = names.type_hint(text, reader.source)
    raise reader.source.error_at(reader.tokens[first].start, "E_TYPE", f"there is no type {text}", hint)


def _is_type(text: str) -> bool:
    try:
        data_type(text)
    except PlanError:
        return False
    return True


def data_type(text: str) -> DataType:
    """The type that a text names."""
    source = Source(text)
    try:
        cast = sqlglot.parse_one(f"CAST(NULL AS {text})", read=Everview)
    except ParseError:
        raise source.error_at(0, "E_TYPE", f"there is no type {text}", names.type_hint(text, source)) from None
    if not isinstance(cast, exp.Cast):
        raise source.error_at(0, "E_TYPE", f"there is no type {text}")
    return names.data_type(cast.to, source).optional()


def _check_name(sql: Statements, name: str, token: Token, replaced: bool, source: Source) -> None:
    built_in = name in {*SCALARS, *AGGREGATES, *TABLES} or name.upper() in Everview.Parser.FUNCTIONS
    if built_in or name in sql.core.functions:
        what = "built in" if built_in else "a Python function"
        raise source.error_at(token.start, "E_NAME", f"{name} is {what} already", "choose another name")
    if name not in sql.core.catalog.sql_functions:
        return
    if not replaced:
        raise source.error_at(
            token.start, "E_NAME", f"the function {name} already exists", "CREATE OR REPLACE, or DROP it"
        )
    users = sql.core.definitions.functions.users_of(name)
    if users:
        raise source.error_at(
            token.start,
            "E_IN_USE",
            f"the function {name} is used by {sql.core.access.named(users)}",
            "DROP FUNCTION ... CASCADE, or choose another name",
        )


def _check(sql: Statements, made: FunctionMade, reader: _Reader, body_at: int) -> None:
    """Bind the body once, so that its errors are reported now, with their position in the statement."""
    text = re.sub(r"[^\n]", " ", reader.source.text[: max(body_at, 0)]) + made.body
    source = Source(text, dialect=made.dialect, zone=sql.core.zone, types=sql.core.types)
    compiler = sql.compiler(source)
    compiler.reader = Anybody()
    types = tuple(data_type(kind) for _, kind in made.parameters)
    scope = Scope(_parameter_relation(made, plan.Table(-1, types or (INT,))), source)
    tree = statement_reader.parsed(source)
    mark(tree, sql.core.catalog)
    compiler.inlining = (made.name,)
    nothing = compiler.scalars(Scope(Relation(plan.ONE_ROW, (HIDDEN_FIELD,)), source), {})
    for said, (_, kind) in zip(reversed(made.defaults), reversed(made.parameters), strict=False):
        casts.as_type(nothing, function_arguments.default(said), data_type(kind))
    if made.rows:
        row_functions.check(made, compiler)
        return
    consumed_parts.whole(tree, source, lambda: _result(made, _bind(tree, made, compiler, scope), compiler))


def _parameter_relation(made: FunctionMade, node: plan.Node, before: int = 0) -> Relation:
    fields = [Field(name or f"${i + 1}", made.name) for i, (name, _) in enumerate(made.parameters)]
    hidden = len(node.types) - before - len(fields)
    return Relation(node, (*[HIDDEN_FIELD] * before, *fields, *[HIDDEN_FIELD] * hidden))


def _bind(tree: exp.Expr, made: FunctionMade, compiler: Compiler, scope: Scope) -> Expr:
    """The body over a scope with the parameters as columns."""
    for parameter in list(tree.find_all(exp.Parameter, exp.Placeholder)):
        _number(parameter, made, scope, compiler)
    if _is_expression(tree):
        if len(tree.expressions) != 1:
            raise compiler.source.error(tree, "E_WIDTH", f"a function returns one value, not {len(tree.expressions)}")
        return compiler.scalars(scope, {}).bind(tree.expressions[0])
    if not isinstance(tree, exp.Query):
        raise compiler.source.refuse(tree, "the body of a function is a query of one value", HINT)
    return compiler.subqueries(scope, {}).scalar(exp.Subquery(this=tree))


def _number(parameter: exp.Expr, made: FunctionMade, scope: Scope, compiler: Compiler) -> None:
    """$1: the first parameter, whatever its name; replaced by its column."""
    number = parameter.name
    if not number.isdecimal() or not 1 <= whole_number(number) <= len(made.parameters):
        raise compiler.source.error(parameter, "E_PARAMETER", f"there is no parameter ${number}")
    name = made.parameters[whole_number(number) - 1][0] or f"${number}"
    parameter.replace(exp.column(name, table=made.name))


def _is_expression(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Select) and not any(v for k, v in tree.args.items() if k not in ("expressions", "kind"))


def _reads_tables(tree: exp.Expr) -> bool:
    """Whether a body is more than an expression of its parameters; marks calls in it."""
    return not _is_expression(tree) or any(has_query(e) for e in tree.expressions)


def mark(tree: exp.Expr, catalog: Catalog) -> None:
    """Mark calls of functions that read tables: they are subqueries (`has_query`)."""
    known = catalog.sql_functions
    for node in tree.find_all(exp.Anonymous) if known else ():
        name = str(node.this).lower()
        if name in known and _is_query(name, catalog, ()):
            node.meta[QUERY] = True


def _is_query(name: str, catalog: Catalog, around: tuple[str, ...]) -> bool:
    made = catalog.sql_functions.get(name)
    if made is None or name in around:
        return False
    tree = _body(made.body, made.dialect)
    calls = [str(n.this).lower() for n in tree.find_all(exp.Anonymous)]
    return _reads_tables(tree) or any(_is_query(c, catalog, (*around, name)) for c in calls)


@lru_cache(256)
def _body(body: str, dialect: str) -> exp.Expr:
    return statement_reader.parsed(Source(body, dialect=dialect))


def _result(made: FunctionMade, value: Expr, compiler: Compiler) -> Expr:
    target = data_type(made.returns)
    scope = Scope(Relation(plan.ONE_ROW, (HIDDEN_FIELD,)), compiler.source)
    return casts.cast_to(compiler.scalars(scope, {}), value, target.optional(False))


def inlined(node: exp.Anonymous, made: FunctionMade, scalars: Scalars) -> Expr:
    """A call: the body with the arguments substituted."""
    compiler, outside = scalars.compiler, scalars.source
    if made.name in compiler.inlining:
        raise outside.error(node, "E_RECURSION", f"the function {made.name} calls itself", "use WITH RECURSIVE")
    if made.rows:
        raise outside.refuse(node, f"{made.name} gives rows, so it is not allowed here", f"FROM {made.name}(...)")
    args = [
        casts.as_type(scalars, argument, data_type(kind))
        for argument, (_, kind) in zip(
            function_arguments.given(made, node.expressions, node, outside), made.parameters, strict=True
        )
    ]
    compiler.called[made.name] = None
    source = Source(made.body, dialect=made.dialect, zone=outside.zone, types=outside.types)
    tree = statement_reader.parsed(source)
    mark(tree, compiler.core.catalog)
    before = compiler.inlining
    compiler.inlining, compiler.source = (*before, made.name), source
    try:
        if not _reads_tables(tree):
            types = tuple(a.type for a in args) or (INT,)
            scope = Scope(_parameter_relation(made, plan.Table(-1, types)), source)
            value = _bind(tree, made, compiler, scope).remap(dict(enumerate(args)))
        else:
            value = _over_tables(tree, made, args, scalars, source)
        outer = compiler.scalars(scalars.scope, {})
        value = casts.cast_to(outer, value, data_type(made.returns).optional(False))
    except PlanError as error:
        message = re.sub(r"^line \d+, column \d+: ", "", error.message)
        raise outside.error(node, error.code, f"in the function {made.name}: {message}", error.hint) from None
    finally:
        compiler.inlining, compiler.source = before, outside
    return _strict(value, args, scalars) if made.strict else value


def _over_tables(tree: exp.Expr, made: FunctionMade, args: list[Expr], scalars: Scalars, source: Source) -> Expr:
    """A body that reads tables: a subquery of the caller's rows, which have the arguments as further columns."""
    scope = scalars.scope
    width = len(scope.relation.node.types)
    refs = tuple(scope.relation.ref(i) for i in range(width))
    wider = Project(scope.relation.node, (*refs, *args))
    inner = Scope(_parameter_relation(made, wider, width), source)
    value = _bind(tree, made, scalars.compiler, inner)
    scope.append(inner.relation.node)
    return value


def _strict(value: Expr, args: list[Expr], scalars: Scalars) -> Expr:
    """STRICT: NULL if any argument is."""
    nulls = [functions.call("is_null", a) for a in args if a.type.nullable]
    if not nulls:
        return value
    null = Constant(value.type.optional(), None)
    return scalars.call("case", functions.conjunction(nulls, "or"), null, value)


def drop(sql: Statements, node: exp.Drop, source: Source) -> Do:
    """DROP FUNCTION [IF EXISTS] f [(types)], ... [CASCADE]: all or none"""
    known = sql.core.catalog.sql_functions
    optional, cascade = bool(node.args.get("exists")), bool(node.args.get("cascade"))
    found: list[str] = []
    consumed_parts.understood(node)
    for target in node.args.get("tables") or [node.this]:
        name = target.name.lower()
        if name in known and sql.core.access.sees("function", name):
            found.append(name)
        elif not optional:
            if (who := sql.core.access.acting()) is not None:
                raise sql.core.access.refused("ALTER", "function", name, who)
            raise source.error(target, "E_FUNCTION", f"there is no function {name}", did_you_mean(name, known))
        else:
            source.notes.skipped.append(f"there is no function {name}: nothing is dropped")
    given = node.args.get("expressions") or []
    if given and found and len(given) != len(known[found[0]].parameters):
        raise source.error(
            node, "E_FUNCTION", f"the function {found[0]} has {len(known[found[0]].parameters)} parameters"
        )
    for name in found:
        users = [u for u in sql.core.definitions.functions.users_of(name) if u not in found]
        if users and not cascade:
            raise source.error(
                node,
                "E_IN_USE",
                f"the function {name} is used by {sql.core.access.named(users)}",
                "drop those first, or CASCADE",
            )

    def do() -> None:
        for name in dict.fromkeys(found):
            sql.core.definitions.functions.drop(name)

    return do
