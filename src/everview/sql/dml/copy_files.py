"""COPY: from files into tables, and from queries into files.

    COPY t [(columns)] FROM 'in/t.csv' [WITH (HEADER, DELIMITER ';', NULL 'NA')]
    COPY t [(columns)] TO 'out/t.parquet'
    COPY (SELECT ...) TO 'out/answer.json' [WITH (FORMAT json)]

As in PostgreSQL, a CSV file has no header unless HEADER is given, and its fields are the columns in order, whatever the
header says. The other formats have their own column names, which must match. Unlike PostgreSQL, the default FORMAT
follows from the file's name.

All rows of a file are inserted in one transaction, which is undone if one of them is bad. A file is written under
another name and then renamed, so that readers find the old one or the new one, complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import TokenType, exp

from everview.codes.codec import Codec
from everview.errors import InputError, did_you_mean
from everview.io.file_sink import write_whole
from everview.io.files import Files
from everview.io.formats import Arrow, Csv, Format, Json, Parquet
from everview.io.record_encoder import RecordEncoder
from everview.io.source import Bad, here
from everview.io.source_inference import by_suffix
from everview.language.relation import relation_of
from everview.session.reads.contents import Contents
from everview.session.table import Table
from everview.sql.answers.files import forbidden
from everview.sql.dml import constraint_checks, omitted_columns
from everview.sql.scalar.names import spelled
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.query import Query
    from everview.sql.statements import Statements

FORMATS: dict[str, Callable[[], Format]] = {"csv": Csv, "json": Json, "parquet": Parquet, "arrow": Arrow}
_OPTIONS = ("FORMAT", "HEADER", "DELIMITER", "NULL", "QUOTE", "ENCODING")
_YES = {"TRUE": True, "ON": True, "1": True, "FALSE": False, "OFF": False, "0": False}
_TEXTS = (TokenType.STRING, TokenType.BYTE_STRING)
_HINT = "COPY t FROM 'file.csv', COPY t TO 'file.csv' or COPY (SELECT ...) TO 'file.csv'"


@dataclass
class _Options:
    """What WITH says."""

    given: dict[str, Any] = field(default_factory=dict)

    @property
    def of_csv(self) -> dict[str, Any]:
        """The options for CSV files, under `Csv`'s names."""
        return {name.lower(): value for name, value in self.given.items() if name in _OPTIONS[1:5]}


def copy(sql: Statements, statement: statement_reader.Statement) -> None:
    """COPY name [(columns)] | (query) FROM | TO 'file' [WITH (...)]"""
    words = Words(statement)
    words.need("COPY")
    refusal = forbidden(sql.core)
    if refusal is not None:
        raise words.error(refusal.message, refusal.hint, refusal.code)
    what = _What(words)
    into = words.choose("FROM", "TO") == "FROM"
    if words.at < len(words.tokens) and words.tokens[words.at].text.upper() in ("STDIN", "STDOUT", "PROGRAM"):
        raise words.error(f"COPY with {words.tokens[words.at].text} is not supported", _HINT, "E_UNSUPPORTED")
    place = words.at
    path = words.take("a path in quotes", TokenType.STRING)
    options = _options(words)
    words.end()
    words.at = place
    files = _files(words, path, options)
    words.at = what.at
    if into:
        _load(sql, words, what, files)
    else:
        query, compiler = _asked(sql, statement, words, what)
        if not sql.dry:
            rows = sql.answer(query, compiler).to_arrow()
            write_whole(files, rows)
            sql.affected = rows.num_rows


class _What:
    """What is copied: a query in brackets, or a name and optionally columns."""

    def __init__(self, words: Words) -> None:
        self.at = words.at
        self.query = words.brackets()
        self.end = words.tokens[words.at - 1].end + 1
        self.name = "" if self.query else words.name("a table, or a query in brackets")
        self.columns: list[str] = []
        if not self.query and words.next_is("("):
            self.columns.append(words.name("a column"))
            while words.next_is(","):
                self.columns.append(words.name("a column"))
            words.need(")")


# options


def _options(words: Words) -> _Options:
    """[WITH] (NAME value, ...), or one after the other as in old PostgreSQL: [WITH] CSV HEADER DELIMITER ';'"""
    options = _Options()
    words.next_is("WITH")
    listed = words.next_is("(")
    while words.at < len(words.tokens):
        _option(words, options.given, listed)
        if listed and words.next_is(")"):
            break
        if listed:
            words.need(",")
    return options


def _option(words: Words, given: dict[str, Any], listed: bool) -> None:
    name = words.take("an option").upper()
    if not listed and name.lower() in FORMATS:
        name, value = "FORMAT", name.lower()
        given[name] = value
        return
    if name not in _OPTIONS:
        words.at -= 1
        raise words.error(f"COPY has no option {name}", did_you_mean(name, (*_OPTIONS, "WITH")), "E_OPTION")
    if name in given:
        words.at -= 1
        raise words.error(f"{name} is given twice", "give it once", "E_OPTION")
    words.next_is("AS")
    if name == "HEADER":
        given[name] = _flag(words, listed)
    elif name == "FORMAT":
        given[name] = words.take("a format").lower()
    else:
        given[name] = words.take("a text in quotes", *_TEXTS)
    if name == "ENCODING" and given[name].upper().replace("-", "") != "UTF8":
        words.at -= 1
        raise words.error(f"files are read and written as UTF-8, not {given[name]}", "convert it first", "E_OPTION")


def _flag(words: Words, listed: bool) -> bool:
    """HEADER, HEADER true, HEADER off; old forms have no value."""
    text = words.tokens[words.at].text.upper() if words.at < len(words.tokens) else ""
    if not listed or text in (",", ")"):
        return True
    if text not in _YES:
        raise words.error("HEADER is true or false", "HEADER true", "E_OPTION")
    words.at += 1
    return _YES[text]


def _files(words: Words, path: str, options: _Options) -> Files:
    """The files for a path and options."""
    chosen = options.given.get("FORMAT")
    if chosen is not None and chosen not in FORMATS:
        hint = (
            "the file's name tells the format, too" if chosen in ("text", "binary") else did_you_mean(chosen, FORMATS)
        )
        raise words.error(f"there is no format {chosen}", hint, "E_FORMAT")
    try:
        found = Files(path, FORMATS[chosen]()) if chosen is not None else by_suffix(path)
        if isinstance(found.format, Csv):
            return Files(path, Csv(**{"delimiter": ",", "header": False, **options.of_csv}))
    except InputError as error:
        hint = f"say WITH (FORMAT {', '.join(FORMATS)})" if error.code == "E_FORMAT" else error.hint
        raise words.error(error.message, hint, error.code) from None
    for option in options.of_csv:
        raise words.error(f"{option.upper()} is for CSV files", "leave it out", "E_OPTION")
    return found


# from a file


def _load(sql: Statements, words: Words, what: _What, files: Files) -> None:
    """Insert all rows of a file, in one transaction."""
    table = _table(sql, words, what)
    columns = table.schema()
    names = [_column(words, table, column) for column in what.columns] or list(columns)
    defaults = sql.core.defaults.of(table).keys() - {*names}
    for column, declared in columns.items():
        if column not in names and not declared.nullable and column not in defaults:
            raise words.error(
                f"{relation_of(table).label}.{column} cannot be NULL and is not listed", "list it", "E_NULL"
            )
    if isinstance(files.format, Csv):
        files.format.skip = files.format.header is True
        files.format.header = names
    if sql.dry:
        return
    codec = relation_of(table).codec
    if defaults:
        codec = Codec([columns[n] for n in names], names, sql.core.interner)
    fitting = RecordEncoder(relation_of(table).label, codec, exact=True)
    at = [list(columns).index(n) for n in names]
    taken = 0
    with constraint_checks.statement(sql.core), sql.session.transaction():
        files.open({}, {n: columns[n] for n in names}, False)
        while (chunk := files.poll(None)) is not None:
            bad: list[Bad] = list(chunk.bad)
            codes, _ = fitting.encode(here(chunk.rows), chunk.place, bad)
            for record in bad:
                problem = f"{record.place}: {record.reason}: {record.record}"
                code = "E_NULL" if record.reason.startswith("[E_NULL]") else "E_RECORD"
                raise words.error(problem, "nothing was copied: correct the record", code)
            if defaults:
                codes = relation_of(table).codec.encode(
                    omitted_columns.completed(sql, table, at, codec.decode_rows(codes))
                )
            if relation_of(table).key:
                sql.core.by_key.insert(table, codes)
            else:
                sql.core.transactions.stage(table, codes, 1)
            taken += codes.shape[1]
    sql.affected = taken


def _table(sql: Statements, words: Words, what: _What) -> Table:
    """The table that rows are copied into."""
    if what.query:
        raise words.error("rows cannot be copied into a query", _HINT)
    exact = sql.spelled(what.name)
    if exact in sql.session.views:
        raise words.error(f"{exact} is a view, which cannot be changed", "copy into a table", "E_TYPE")
    if exact not in sql.session.tables:
        raise words.error(f"there is no table {what.name}", did_you_mean(what.name, sql.session.tables), "E_TABLE")
    return sql.core.catalog.tables[exact]


def _column(words: Words, table: Contents, column: str) -> str:
    have = [c.name for c in relation_of(table).columns]
    exact = spelled(column, have)
    if exact not in have:
        raise words.error(f"{relation_of(table).label} has no column {column}", did_you_mean(column, have), "E_COLUMN")
    return exact


# to a file


def _asked(sql: Statements, statement: statement_reader.Statement, words: Words, what: _What) -> tuple[Query, Compiler]:
    """The query whose rows are copied: that in brackets, or one for the columns of a table or view."""
    source = sql.placed(statement.source())
    if what.query:
        start = words.tokens[what.at].start
        blank = re.sub(r"[^\n]", " ", source.text)
        text = blank[:start] + source.text[start : what.end] + blank[what.end :]
        tokens = tuple(t for t in source.tokens if start <= t.start < what.end)
        source = replace(source, text=text, known=tokens, is_cut=False)
        tree = statement_reader.parsed(source)
        if not isinstance(tree, statement_reader.QUERIES):
            raise source.refuse(tree, "only the answer of a query can be copied", _HINT)
        return consumed_parts.whole(tree, source, lambda: sql.bound(tree, source))
    exact = sql.spelled(what.name)
    if exact not in sql.session:
        hint = did_you_mean(what.name, [*sql.session.tables, *sql.session.views])
        raise words.error(f"there is no table or view {what.name}", hint, "E_TABLE")
    found = sql.session[exact]
    listed: list[exp.Expr] = [exp.column(_column(words, found, c), quoted=True) for c in what.columns]
    schema, _, name = exact.rpartition(".")
    target = exp.table_(name, db=schema or None, quoted=True)
    return sql.bound(exp.Select(expressions=listed or [exp.Star()], from_=exp.From(this=target)), source)
