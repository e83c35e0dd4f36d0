"""Dialects: how a text is parsed, keeping functions by their written names.

The default is sqlglot's PostgreSQL. `SET dialect = 'spark'` parses what follows as another system would. Three things
depend on the dialect:

- reading: quotes, escapes in texts, operators (`||`, `^`), names of types, all as sqlglot's dialect has them;
- meaning where the tree says so: whether `/` of integers is exact (`Div.typed`) and of zero NULL (`Div.safe`), where
  NULLs sort (`Ordered.nulls_first`), whether concat and greatest pass over NULLs;
- functions: one that sqlglot has a node for and we do not know is written in PostgreSQL's words and read again
  (`in_our_words`), with its arguments untouched, so that errors keep their places.

sqlglot normalises the functions of thirty systems into common nodes, which loses what was written: `to_char(d, 'YYYY')`
becomes a node with the format '%Y', `date_bin` loses its origin. Functions that are bound by name here
(`everview.sql.scalar.calls`) are therefore left as calls by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parser import TIME_ZONE_RE

import everview
from everview.sql.text.call_names import AGGREGATES, LISTS, SCALARS, TABLES, TYPED

_READ_BY_NAME = {*SCALARS, *AGGREGATES, *TABLES, *TYPED, *LISTS, "timestampdiff"}


def _json_operator(kind: type[exp.Expr]) -> Callable[..., exp.Expr]:
    """j -> key: the key stays an expression, which sqlglot would turn into a path."""
    return lambda self, this, key: self.expression(kind(this=this, expression=key))


def _arrow(self: Any, names: list[exp.Expr]) -> exp.Expr:
    """j -> 'a' as an argument is JSON's operator; a function of elements speaks of them: x -> x + 1, x -> true."""
    in_brackets = self._tokens[self._index - 2].token_type is TokenType.R_PAREN
    start, first = self._index - (4 if in_brackets else 2), self._curr
    function: exp.Expr = Postgres.Parser.LAMBDAS[TokenType.ARROW](self, names)
    meant = {name.name.lower() for name in names}
    spoken_of = any(name.name.lower() in meant for name in function.this.find_all(exp.Identifier))
    if len(names) > 1 or spoken_of or first.token_type in (TokenType.TRUE, TokenType.FALSE, TokenType.NULL):
        return function
    self._retreat(start)
    nulls = self._parse_respect_or_ignore_nulls
    found: exp.Expr = self._parse_limit(nulls(self._parse_order(nulls(self._parse_disjunction()))))
    return found


def _text(self: Any, token: Token) -> exp.Expr:
    """E'a\\n', N'a': the contents, decoded by the tokenizer, are an ordinary text."""
    found: exp.Expr = self.expression(exp.Literal(this=token.text, is_string=True), token)
    return found


def _aggregate(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.AnonymousAggFunc(this=name, expressions=args)


DEFAULT = "postgres"

POSTGRES = "15.0"
"""The PostgreSQL version whose syntax, catalog and protocol are emulated."""


def version() -> str:
    """The result of `version()`: the emulated PostgreSQL version, and our own."""
    return f"PostgreSQL {POSTGRES} (Everview {everview.__version__})"


_DOLLAR = "\x01"
"""Stands for the dollar of a parameter during tokenization."""

_QUOTED = re.compile(
    r"""'(?:[^'])*'|"[^"]*"|--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1|(?<![\w$])\$(?=\w+(?![\w$]))""", re.DOTALL
)


def protected(text: str) -> str:
    """A text in which `$1,$` is not taken for the start of a quoted text; positions are unchanged.

    >>> protected("VALUES ($1,$2, '$3', $$ $4 $$)").replace(_DOLLAR, "#")
    "VALUES (#1,#2, '$3', $$ $4 $$)"
    """
    return _QUOTED.sub(lambda m: _DOLLAR if m.group() == "$" else m.group(), text) if "$" in text else text


_CONSTANTS = (TokenType.STRING, TokenType.NUMBER)
_ENDS = (TokenType.COMMA, TokenType.R_PAREN)
_AFTER_CONDITIONS = (
    TokenType.R_PAREN, TokenType.COMMA, TokenType.AND, TokenType.OR, TokenType.GROUP_BY, TokenType.ORDER_BY,
    TokenType.HAVING, TokenType.LIMIT, TokenType.THEN, TokenType.FROM, TokenType.ALIAS, TokenType.UNION,
)  # fmt: skip
"""What may follow a condition that is whole."""
_MODIFIERS = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH)

FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
"""The fields of an interval in the SQL standard."""


class TypedConstants:
    """A parser for which date '2024-02-29'::timestamp casts a date: sqlglot would cast the text first."""

    def _parse_types(
        self: Any,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        """A type, also ROW<x INT, y STRING> as Flink writes it; a constant of a type is whole."""
        row = self.row_type()
        if row is not None:
            return row  # type: ignore[no-any-return]
        found: exp.Expr | None = super()._parse_types(check_func, schema, allow_identifiers, with_collation)  # type: ignore[misc]
        in_expression = check_func and not allow_identifiers
        if in_expression and isinstance(found, exp.DataType) and self._match(TokenType.STRING, advance=False):
            return self.typed_constant(found)  # type: ignore[no-any-return]
        return found

    def row_type(self: Any) -> exp.Expr | None:
        """ROW<x INT, y STRING>: a struct; None if it is none."""
        start = self._index
        if self._match_text_seq("ROW") and self._match(TokenType.LT):
            fields = self._parse_csv(lambda: self._parse_struct_types(type_required=True))
            if self._match(TokenType.GT):
                struct = exp.DataType(this=exp.DataType.Type.STRUCT, expressions=fields, nested=True)
                made: exp.Expr = self.expression(struct)
                return made
        self._retreat(start)
        return None

    def typed_constant(self: Any, kind: exp.DataType) -> exp.Expr:
        """date '2024-02-29': a cast, to which the operators behind it apply. The type is all there is where a dialect
        makes something else of it: JSON, or a timestamp with a zone.
        """
        start = self._index
        text = self._parse_primary()
        if isinstance(text, exp.Literal) and not self.differs(kind, text):
            made: exp.Expr = self.expression(exp.Cast(this=text, to=kind))
            return made
        self._retreat(start)
        return kind

    def differs(self: Any, kind: exp.DataType, text: exp.Literal) -> bool:
        """Whether a dialect has a form of its own for a constant."""
        if self.dialect.parser_class is Everview.Parser:
            return False
        zoned = self.ZONE_AWARE_TIMESTAMP_CONSTRUCTOR and TIME_ZONE_RE.search(text.name)
        return kind.this in self.TYPE_LITERAL_PARSERS or bool(zoned)


class Everview(Postgres):
    """PostgreSQL's dialect, with our functions left as written."""

    class Tokenizer(Postgres.Tokenizer):
        SINGLE_TOKENS: ClassVar = {**Postgres.Tokenizer.SINGLE_TOKENS, _DOLLAR: TokenType.PARAMETER}
        KEYWORDS: ClassVar = {**Postgres.Tokenizer.KEYWORDS, "MATCH_CONDITION": TokenType.MATCH_CONDITION}
        IDENTIFIERS: ClassVar = ['"', "`"]  # scripts of Flink, Spark and MySQL quote names by the second

    ORIGINAL_NAME_META_KEY = "name"
    INDEX_OFFSET = 0  # a[1] is the first element: the number is left as it is written

    class Parser(TypedConstants, Postgres.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: ClassVar = {
            **{name: make for name, make in Postgres.Parser.FUNCTIONS.items() if name.lower() not in _READ_BY_NAME},
            **{name.upper(): _aggregate(name) for name in (*AGGREGATES, *LISTS)},
            "EVERY": exp.LogicalAnd.from_arg_list,
            "GROUPING_ID": exp.Grouping.from_arg_list,
        }
        FUNCTION_PARSERS: ClassVar = {
            name: parse for name, parse in Postgres.Parser.FUNCTION_PARSERS.items() if name.lower() not in _READ_BY_NAME
        }
        TABLE_ALIAS_TOKENS: ClassVar = Postgres.Parser.TABLE_ALIAS_TOKENS - {TokenType.MATCH_CONDITION}
        COLUMN_OPERATORS: ClassVar = {
            **Postgres.Parser.COLUMN_OPERATORS,
            TokenType.ARROW: _json_operator(exp.JSONExtract),
            TokenType.DARROW: _json_operator(exp.JSONExtractScalar),
        }

        PRIMARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **Postgres.Parser.PRIMARY_PARSERS,
            TokenType.BYTE_STRING: _text,
            TokenType.NATIONAL_STRING: _text,
            TokenType.HEREDOC_STRING: _text,
            TokenType.UNICODE_STRING: lambda self, token: self.unicode_text(token),
        }

        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            **Postgres.Parser.NO_PAREN_FUNCTION_PARSERS,
            "SOME": lambda self: self.some_of(),
        }

        LAMBDAS: ClassVar = {**Postgres.Parser.LAMBDAS, TokenType.ARROW: _arrow}

        def some_of(self) -> exp.Expr:
            """x = SOME (array), the same as ANY"""
            found: exp.Expr = self.expression(exp.Any(this=self._parse_bitwise()))
            return found

        def unicode_text(self, token: Token) -> exp.Expr:
            """U&'\\00e9', U&'!00e9' UESCAPE '!': letters by their numbers"""
            escape = self._parse_string() if self._match_text_seq("UESCAPE") else None
            sign = re.escape(escape.name if escape is not None else "\\")

            def letter(found: re.Match[str]) -> str:
                digits = found[1] or found[2]
                if digits:
                    return chr(int(digits, 16))
                return found[0][0] if found[3] else str(self.raise_error(f"{found[0]} is not a letter's number"))

            pattern = rf"{sign}(?:([0-9A-Fa-f]{{4}})|\+([0-9A-Fa-f]{{6}})|({sign})|.?)"
            text = re.sub(pattern, letter, token.text, flags=re.DOTALL)
            made: exp.Expr = self.expression(exp.Literal(this=text, is_string=True), token)
            return made

        def _parse_disjunction(self) -> exp.Expr | None:
            """A constant alone between commas is parsed directly: thousands of them need not pass all operator
            levels."""
            token, following = self._curr, self._next
            if following and token.token_type in _CONSTANTS and following.token_type in _ENDS:
                self._advance()
                return self.PRIMARY_PARSERS[token.token_type](self, token)  # type: ignore[no-any-return]
            found: exp.Expr | None = super()._parse_disjunction()
            return found

        UNARY_PARSERS: ClassVar = {**Postgres.Parser.UNARY_PARSERS, TokenType.NOT: lambda self: self.negations()}

        def negations(self) -> exp.Expr:
            """NOT x. Of NOT (NOT (NOT (x))) all levels are read in one loop: each would take thirty calls otherwise."""
            start, levels = self._index, 0
            while self._match_pair(TokenType.L_PAREN, TokenType.NOT):
                levels += 1
            found: exp.Expr = self.expression(exp.Not(this=self._parse_equality()))
            for _ in range(levels):
                closed = self._match(TokenType.R_PAREN)
                if not closed or (self._curr is not None and self._curr.token_type not in _AFTER_CONDITIONS):
                    self._retreat(start)  # NOT (NOT a AND b), NOT (NOT a) IS NULL: there is more
                    plain: exp.Expr = self.expression(exp.Not(this=self._parse_equality()))
                    return plain
                found = self.expression(exp.Not(this=exp.Paren(this=found)))
            return found

        def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values | None:
            """(VALUES ... ORDER BY ... LIMIT ...) is left to those who read a query in brackets."""
            bracket = self._curr is not None and self._curr.token_type == TokenType.L_PAREN
            if bracket and self._next and self._next.token_type == TokenType.VALUES and self._has_modifiers():
                return None
            found: exp.Values | None = super()._parse_derived_table_values(allow_value_synonym)
            return found

        def _has_modifiers(self) -> bool:
            """Whether ORDER BY, LIMIT or the like stand in the brackets that come next."""
            depth = 0
            for token in self._tokens[self._index :]:
                depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
                if depth == 0 or (depth == 1 and token.token_type in _MODIFIERS):
                    return bool(depth)
            return False

        def _parse_parameter(self) -> exp.Expr:
            """@ -3 is the absolute value; parameters have a dollar."""
            is_sign = self._prev.text == "@"
            this = self._parse_unary() if is_sign else self._parse_identifier() or self._parse_primary_or_var()
            found: exp.Expr = self.expression(exp.Abs(this=this) if is_sign else exp.Parameter(this=this))
            return found

        def _parse_unnest(self, with_alias: bool = True) -> exp.Unnest | None:
            """WITH OFFSET is BigQuery's, which counts from 0: PostgreSQL has WITH ORDINALITY, from 1."""
            found: exp.Unnest | None = super()._parse_unnest(with_alias)
            before = self._tokens[max(self._index - 4, 0) : self._index]
            if found is not None and found.args.get("offset") and any(t.text.upper() == "OFFSET" for t in before):
                self.raise_error("WITH ORDINALITY numbers rows")
            return found

        def _parse_interval(
            self, require_interval: bool = True, parse_function_unit: bool = True
        ) -> exp.Add | exp.Interval | None:
            """One interval: sqlglot would parse `interval '1 day' + 5 * x` as two."""
            start = self._index
            if not self._match(TokenType.INTERVAL) and require_interval:
                return None
            quoted = self._match(TokenType.STRING, advance=False)
            this = self._parse_primary() if quoted else self._parse_term()
            is_name = isinstance(this, exp.Column) and not this.table and not this.this.quoted
            following = self._curr.text.upper() if self._curr is not None else ""
            if this is None or (is_name and following and following not in self.dialect.VALID_INTERVAL_UNITS):
                self._retreat(start)  # a column that is called interval
                return None
            return self._parse_interval_span(this, parse_function_unit)

        def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
            """Keep an interval's text whole: sqlglot keeps only the first part of '1 day 02:03'."""
            if this is not None and this.is_string and not re.fullmatch(r"\s*[+-]?[\d.]+\s*", this.name):
                span = self._parse_fields()
                whole: exp.Interval = self.expression(exp.Interval(this=this, unit=span))
                return whole
            found: exp.Interval = super()._parse_interval_span(this, parse_function_unit)
            return found

        def _parse_fields(self) -> exp.Expr | None:
            """YEAR TO MONTH, or HOUR alone, behind an interval's text"""
            start = self._index
            if not self._match_texts(FIELDS):
                return None
            first = self._prev.text
            if not self._match_text_seq("TO"):
                return exp.Var(this=first.upper())
            if not self._match_texts(FIELDS):
                self._retreat(start)
                return None
            last = exp.Var(this=self._prev.text.upper())
            span: exp.Expr = self.expression(exp.IntervalSpan(this=exp.Var(this=first.upper()), expression=last))
            return span


NAMES: tuple[str, ...] = tuple(sorted(n for n in Dialect.classes if n not in ("", "everview")))
"""What SET dialect takes."""


@cache
def reader(name: str) -> type[Dialect]:
    """The dialect that parses a text; functions keep their written names.

    >>> reader("postgres").__name__, reader("spark").__mro__[1].__name__
    ('Everview', 'Spark')
    """
    if name == DEFAULT:
        return Everview
    known = Dialect.get_or_raise(name)
    parser = type("Parser", (TypedConstants, type(known).parser_class), {})
    told = {"ORIGINAL_NAME_META_KEY": "name", "INDEX_OFFSET": 0, "Parser": parser}
    return type(f"Everview{name.capitalize()}", (type(known),), told)


def first_place(name: str) -> int:
    """The first array index of a dialect: 0 or 1."""
    return 1 if name == DEFAULT else int(Dialect.get_or_raise(name).INDEX_OFFSET)


def first_offset(name: str) -> int:
    """The number of the first row of unnest(...) WITH OFFSET, which BigQuery counts from 0, or WITH ORDINALITY."""
    return 0 if name == "bigquery" else 1


def is_safe(name: str) -> bool:
    """Whether divisions by zero are NULL in a dialect."""
    return bool(reader(name).SAFE_DIVISION)


def is_exact(name: str) -> bool:
    """Whether quotients, averages and deviations of decimals are numerics in a dialect; in DuckDB they are doubles."""
    return name != "duckdb"


SPARKS = ("spark", "spark2", "databricks", "hive")
"""Spark, and those whose SQL it took over or that took over its SQL."""

PRINTING = ("postgres", "redshift", "materialize", "risingwave")
"""Dialects that print arrays among texts; elsewhere concat concatenates them, and concat_ws joins their elements. In
these an array of arrays is a matrix: unnest and array_to_string take its elements one by one."""


_PLAIN = (exp.Literal, exp.Var, exp.DataType, exp.Identifier, exp.Null, exp.Boolean, exp.Star, exp.Interval)
"""Arguments that matter to how a function is written."""


def in_our_words(node: exp.Expr) -> exp.Expr | None:
    """A call in PostgreSQL's terms; None if it has no other form.

    >>> call = sqlglot.parse_one("date_format(d, 'yyyy-MM')", read="spark")
    >>> in_our_words(call).sql("postgres")
    "TO_CHAR(CAST(d AS TIMESTAMP), 'YYYY-MM')"
    """
    children: dict[str, exp.Expr] = {}

    def stand_in(part: object) -> object:
        if isinstance(part, list):
            return [stand_in(p) for p in part]
        if not isinstance(part, exp.Expr):
            return part
        if isinstance(part, _PLAIN) or part.find(exp.Column, exp.Query) is None:
            return part.copy()
        name = f"_argument{len(children)}"
        children[name] = part
        return exp.column(name)

    made = type(node)(**{name: stand_in(part) for name, part in dict.items(node.args)})
    try:
        text = made.sql(dialect="postgres", unsupported_level=ErrorLevel.RAISE)
        found = sqlglot.parse_one(text, read=Everview)
    except SqlglotError:
        return None
    if type(found) is type(node) or not all(_is_ours(n) for n in found.find_all(exp.Anonymous)):
        return None
    for column in list(found.find_all(exp.Column)):
        if column.name in children:
            column.replace(children[column.name])
    return children[found.name] if isinstance(found, exp.Column) and found.name in children else found


def _is_ours(call: exp.Anonymous) -> bool:
    return str(call.this).lower() in _READ_BY_NAME
