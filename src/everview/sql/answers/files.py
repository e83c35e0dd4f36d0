"""Files in FROM: `SELECT * FROM 'orders.parquet'`, read once by the query.

Columns and types are inferred as by `db.read`: from the file's schema, or from the first records of a text. While a
statement is bound, a file is an empty table with those types; it is read during execution, and its rows are inlined
into the plan. Views cannot use files: they would not notice changes. CREATE SOURCE creates a table that follows the
file.

Disabled in a session opened with `files=False`.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.codec import Codec
from everview.errors import InputError
from everview.io.bulk_load import name_of
from everview.io.files import Files
from everview.io.pipeline import types_of
from everview.io.record_encoder import RecordEncoder
from everview.io.source import Bad, here
from everview.io.source_inference import by_suffix
from everview.plan import nodes as plan
from everview.sql.select.scopes import Field, Relation
from everview.types import DataType

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.sql.select.compiler import Compiler
    from everview.sql.text.error_positions import Source

_NUMBERS = count(1_000_000)
"""For the tables that stand for files; `everview.sql.dml.modifying_ctes` counts from 1."""


class FileTable:
    """A file that a query reads: its columns, and its rows on demand."""

    def __init__(self, core: Core, path: str) -> None:
        self.core = core
        self.path = path
        self.files: Files = by_suffix(path)
        self.columns: dict[str, DataType] = types_of(self.files.schema(), ())
        self.node = plan.Table(-1 - next(_NUMBERS), tuple(self.columns.values()))

    @property
    def alias(self) -> str:
        """Its default alias: the file's name without suffix."""
        return name_of(self.path)

    def rows(self) -> plan.Constant:
        """All rows, as a part of a plan."""
        codec = Codec(self.node.types, tuple(self.columns), self.core.interner)
        fitting = RecordEncoder(self.path, codec, exact=True)
        self.files.open({}, self.columns, False)
        rows: list[tuple[object, ...]] = []
        while (chunk := self.files.poll(None)) is not None:
            bad: list[Bad] = list(chunk.bad)
            codes, _ = fitting.encode(here(chunk.rows), chunk.place, bad)
            for record in bad:
                raise InputError(
                    "E_RECORD",
                    f"{record.place}: {record.reason}: {record.record}",
                    "CREATE SOURCE name (columns) FROM 'file' says which types it has; or correct the record",
                )
            rows += codec.decode_rows(codes)
        return plan.Constant(tuple(rows), self.node.types)


def forbidden(core: Core) -> InputError | None:
    """Why SQL may not use files here; None if it may."""
    core.access.may_manage("use files")
    if core.may_use_files:
        return None
    return InputError(
        "E_FORBIDDEN",
        "SQL may not read or write files in this session",
        "the program that opened the session said files=False; let it use db.read, db.source and view.write_to",
    )


def is_file(node: exp.Table, source: Source) -> bool:
    """Whether a table in FROM is a quoted text."""
    start = node.this.meta.get("start", -1) if isinstance(node.this, exp.Expr) else -1
    return isinstance(node.this, exp.Identifier) and 0 <= start < len(source.text) and source.text[start] == "'"


def relation(compiler: Compiler, node: exp.Table) -> Relation:
    """A file in FROM."""
    source, path = compiler.source, node.this.name
    refusal = forbidden(compiler.core)
    if refusal is not None:
        raise source.placed(refusal, node)
    if compiler.standing:
        raise source.refuse(node, f"a view cannot read the file {path!r}: nothing tells it of changes", _instead(path))
    try:
        found = FileTable(compiler.core, path)
    except InputError as error:
        raise source.placed(error, node) from None
    compiler.files[found.node] = found
    return Relation(found.node, tuple(Field(name) for name in found.columns)).called(found.alias)


def _instead(path: str) -> str:
    return f"CREATE SOURCE name FROM {path!r} makes a table of it, which RUN keeps up to date"
