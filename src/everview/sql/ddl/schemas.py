"""CREATE SCHEMA, DROP SCHEMA, SET search_path, and names with a schema before them.

A table `t` of the schema `s` is stored under the name `s.t`; objects without a schema are in `public`, so `public.t` is
`t`. Unqualified names are looked up in the schemas of the search path in order: `public` alone, unless SET search_path
says otherwise. New objects are created in the first existing one.

The existence of a schema is stored as an offset (a text committed with a transaction), so it is as durable as rows are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from everview.errors import did_you_mean
from everview.session.names.entries import TypeDropped
from everview.session.rights.roles import Rights
from everview.sql.scalar import names
from everview.sql.text import statement_reader
from everview.sql.text.error_positions import Source
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.sql.statements import Do, Statements

_T = TypeVar("_T")

PUBLIC = "public"
_MADE = "everview.schema "
"""Prefix of the offsets that record schemas."""


def full_name(node: exp.Expr) -> str:
    """The stored name of a table or view."""
    schema = node.args.get("db")
    written = (schema.name or schema.sql()) if isinstance(schema, exp.Expr) else str(schema or "")
    return node.name if written.lower() in ("", PUBLIC) else f"{written}.{node.name}"


def written(node: exp.Expr) -> str:
    """The name of a table or view as written, with its schema if it has one."""
    full = full_name(node)
    return f"{PUBLIC}.{full}" if node.args.get("db") is not None and full == node.name else full


def found(core: Core, name: str, candidates: Iterable[str]) -> str:
    """The table or view that a name refers to: in its schema, or in the first schema of the search path that has one.
    The name itself if there is none.
    """
    known = list(candidates)
    schema, _, last = name.rpartition(".")
    if schema.lower() == PUBLIC:
        return names.spelled(last, known)
    for one in core.search_path if not schema else ():
        exact = names.spelled(name if one == PUBLIC else f"{one}.{name}", known)
        if exact in known:
            return exact
    return names.spelled(name, known) if schema else name


def short(core: Core, known: dict[str, _T]) -> dict[str, _T]:
    """Types by their names, and by those without a schema that the search path has."""
    if not any("." in name for name in known):
        return known
    found: dict[str, _T] = {}
    for one in reversed(core.search_path):
        there = {n: t for n, t in known.items() if n.rpartition(".")[0] == ("" if one == PUBLIC else one)}
        found |= {f"{PUBLIC}.{name}": kind for name, kind in there.items() if "." not in name}
        found |= {name.rpartition(".")[2]: kind for name, kind in there.items()}
    return {**{n: t for n, t in known.items() if "." in n}, **found}


def made(core: Core) -> list[str]:
    """All schemas except `public`."""
    return [k[len(_MADE) :] for k in core.runtime.offsets if k.startswith(_MADE)]


def seen(core: Core) -> list[str]:
    """Those that exist for the current user."""
    return [s for s in made(core) if core.access.sees("schema", s)]


def new_name(sql: Statements, target: exp.Expr, source: Source) -> str:
    """The name of a new object. Its schema must exist, and is spelled as when it was created."""
    there = seen(sql.core)
    full = full_name(target)
    if target.args.get("db") is None:
        path = [s for s in sql.core.search_path if s == PUBLIC or s in there]
        if not path:
            raise source.error(target, "E_NAME", "no schema of the search path is there", "SET search_path = public")
        full = target.name if path[0] == PUBLIC else f"{path[0]}.{target.name}"
    elif full != target.name:
        given = target.args["db"].name
        schema = names.spelled(given, there)
        if schema not in there:
            raise source.error(target, "E_NAME", f"there is no schema {given}", _hint(sql, given))
        full = f"{schema}.{target.name}"
    return names.spelled(full, [*sql.session.tables, *sql.session.views])


def set_path(sql: Statements, statement: statement_reader.Statement) -> None:
    """SET search_path = | TO a, b | DEFAULT: where unqualified names are looked up"""
    words = Words(statement)
    words.need("SET")
    words.need("SEARCH_PATH")
    words.choose("=", "TO")
    if words.next_is("DEFAULT"):
        words.end()
        sql.core.search_path = (PUBLIC,)
        return
    there, path = [PUBLIC, *seen(sql.core)], []
    while True:
        at = words.at
        given = words.take("a schema")
        for name in [n.strip().strip('"') for n in given.split(",")]:
            schema = names.spelled(name, there)
            if schema not in there and name != "$user":
                words.at = at
                raise words.error(f"there is no schema {name}", _hint(sql, name), "E_NAME")
            path += [schema] if name != "$user" else []
        if not words.next_is(","):
            break
    words.end()
    sql.core.search_path = tuple(path)


DATABASES = ("databricks", "hive", "mysql", "spark", "spark2")
"""Dialects in which a schema is called a database."""


def use(sql: Statements, node: exp.Use, source: Source) -> Do:
    """USE s: SET search_path = s, where schemas are called databases"""
    if source.dialect not in DATABASES:
        raise source.refuse(node, "USE is for dialects whose schemas are databases", "SET search_path = s")
    there, name = [PUBLIC, "default", *seen(sql.core)], _name(node.this, source)
    schema = names.spelled(name, there)
    if schema not in there:
        raise source.error(node.this, "E_NAME", f"there is no schema {name}", _hint(sql, name))

    def do() -> None:
        sql.core.search_path = (PUBLIC if schema == "default" else schema,)

    return do


def create(sql: Statements, node: exp.Create, source: Source) -> Do:
    """CREATE SCHEMA [IF NOT EXISTS] s"""
    name = _name(node.this, source)
    sql.core.access.may_manage("make schemas")
    there = [PUBLIC, *made(sql.core)]
    exists, optional = names.spelled(name, there) in there, bool(node.args.get("exists"))
    if exists and not optional:
        raise source.error(node.this, "E_NAME", f"there is a schema {name} already", "CREATE SCHEMA IF NOT EXISTS")

    if exists:
        source.notes.skipped.append(f"the schema {name} already exists")

    def do() -> None:
        if not exists:
            sql.core.transactions.set_offset(f"{_MADE}{name}", "made")

    return do


def drop(sql: Statements, node: exp.Drop, source: Source) -> Do:
    """DROP SCHEMA [IF EXISTS] s [CASCADE]: with CASCADE, its objects are dropped too"""
    there, optional, cascade = seen(sql.core), bool(node.args.get("exists")), bool(node.args.get("cascade"))
    found: list[str] = []
    for target in node.args.get("tables") or [node.this]:
        written = _name(target, source)
        name = names.spelled(written, there)
        if name in there:
            sql.core.access.may_own("schema", name)
            every = (*sql.core.catalog.tables, *sql.core.catalog.views)
            sql.core.access.may_take_along(n for n in every if n.startswith(f"{name}."))
            found.append(name)
        elif not optional:
            raise source.error(target, "E_NAME", f"there is no schema {written}", did_you_mean(written, there))
        else:
            source.notes.skipped.append(f"there is no schema {written}: nothing is dropped")
        inside = _inside(sql, name) if name in found else []
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
            for one in _inside(sql, name):
                sql.core.definitions.remarks.add(TypeDropped(one))
            sql.core.transactions.set_offset(f"{_MADE}{name}", "")
            if ("schema", name) in sql.core.access.rights:
                sql.core.access.set_rights("schema", name, Rights())

    return do


def _name(target: exp.Expr, source: Source) -> str:
    schema = target.args.get("db") or (target.args.get("this") if source.dialect in DATABASES else None)
    if not isinstance(schema, exp.Expr) or not schema.name or "." in schema.name or target.args.get("catalog"):
        raise source.error(target, "E_SYNTAX", "the schema's name is expected here", "CREATE SCHEMA name")
    return schema.name


def _hint(sql: Statements, name: str) -> str:
    return did_you_mean(name, seen(sql.core)) or f"CREATE SCHEMA {name} first"


def _inside(sql: Statements, schema: str) -> list[str]:
    every = (*sql.session.tables, *sql.session.views, *sql.core.types, *sql.core.domains)
    return [n for n in every if n.startswith(f"{schema}.")]
