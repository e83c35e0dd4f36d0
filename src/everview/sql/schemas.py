"""CREATE SCHEMA, DROP SCHEMA, and names with a schema before them.

A table `t` of the schema `s` is kept by the name `s.t`; what has no schema is in `public`, so `public.t` is `t`. Names
without a schema are looked for there only. That a schema was made is kept as an offset (a text that is committed with a
transaction), so it is as durable as rows are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.sql import names
from everview.sql.places import Source

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.sql.statements import Do, Statements

PUBLIC = "public"
_MADE = "everview.schema "
"""How the offsets begin that say that a schema was made."""


def full_name(node: exp.Expr) -> str:
    """The name by which a table or view is kept."""
    schema = node.args.get("db")
    written = (schema.name or schema.sql()) if isinstance(schema, exp.Expr) else str(schema or "")
    return node.name if written.lower() in ("", PUBLIC) else f"{written}.{node.name}"


def made(core: Core) -> list[str]:
    """All schemas but `public`."""
    return [k[len(_MADE) :] for k in core.runtime.offsets if k.startswith(_MADE)]


def new_name(sql: Statements, target: exp.Expr, source: Source) -> str:
    """The name of something to be created. Its schema must be there, and is spelled as it was when it was made."""
    full = full_name(target)
    if full == target.name:
        return sql.spelled(full)
    written = target.args["db"].name
    there = made(sql.core)
    schema = names.spelled(written, there)
    if schema not in there:
        raise source.error(target, "E_NAME", f"there is no schema {written}", _hint(written, there))
    return sql.spelled(f"{schema}.{target.name}")


def create(sql: Statements, node: exp.Create, source: Source) -> Do:
    """CREATE SCHEMA [IF NOT EXISTS] s"""
    name = _name(node.this, source)
    there = [PUBLIC, *made(sql.core)]
    exists = names.spelled(name, there) in there
    if exists and not node.args.get("exists"):
        raise source.error(node.this, "E_NAME", f"there is a schema {name} already", "CREATE SCHEMA IF NOT EXISTS")

    def do() -> None:
        if not exists:
            sql.core.transactions.set_offset(f"{_MADE}{name}", "made")

    return do


def drop(sql: Statements, node: exp.Drop, source: Source) -> Do:
    """DROP SCHEMA [IF EXISTS] s [CASCADE]: what is in it goes with it, if CASCADE is said"""
    there, optional, cascade = made(sql.core), bool(node.args.get("exists")), bool(node.args.get("cascade"))
    found: list[str] = []
    for target in node.args.get("tables") or [node.this]:
        written = _name(target, source)
        name = names.spelled(written, there)
        if name in there:
            found.append(name)
        elif not optional:
            raise source.error(target, "E_NAME", f"there is no schema {written}", _hint(written, there))
        inside = _inside(sql, name)
        if inside and not cascade:
            what = f"the schema {name} holds {', '.join(sorted(inside))}"
            raise source.error(target, "E_IN_USE", what, "drop those first, or use CASCADE")

    def do() -> None:
        catalog = sql.core.catalog
        for name in dict.fromkeys(found):
            for one in _inside(sql, name):
                if one in catalog.views:
                    catalog.views[one].drop()
            for one in _inside(sql, name):
                if one in catalog.tables:
                    catalog.tables[one].drop(cascade=True)
            sql.core.transactions.set_offset(f"{_MADE}{name}", "")

    return do


def _name(target: exp.Expr, source: Source) -> str:
    schema = target.args.get("db")
    if not isinstance(schema, exp.Expr) or not schema.name or "." in schema.name or target.args.get("catalog"):
        raise source.error(target, "E_SYNTAX", "the schema's name is expected here", "CREATE SCHEMA name")
    return schema.name


def _hint(name: str, there: list[str]) -> str:
    return did_you_mean(name, there) or f"CREATE SCHEMA {name} first"


def _inside(sql: Statements, schema: str) -> list[str]:
    return [n for n in (*sql.session.tables, *sql.session.views) if n.startswith(f"{schema}.")]
