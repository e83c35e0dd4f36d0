"""The contents of a session as rows of the catalog's relations.

A `Picture` is taken on the engine's thread: plain values, without references to the session. Two equal pictures mean
that nothing was created, altered or dropped in between. OIDs of tables, views and indexes are assigned by `Numbers`,
once, and are stable: drivers cache them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everview.codes.type_declarations import data_type
from everview.language.relation import relation_of
from everview.server.pg.catalog import constraint_rows
from everview.server.pg.catalog.names import quoted_name
from everview.server.pg.catalog.privileges import RightsPicture, add_policies, add_roles, roles_shown
from everview.server.pg.catalog.relations import RELATIONS
from everview.server.pg.oids import TYPES, modifier_of, oid_of, size_of
from everview.server.pg.settings import Settings
from everview.session.changes.defaults import Missing
from everview.session.core import Core, core_of
from everview.session.names.constraint_rules import CHECK, FOREIGN_KEY, UNIQUE, Rule
from everview.session.names.entries import FunctionMade, SequenceMade
from everview.session.relations import declared_columns
from everview.session.rights.access import MONITOR
from everview.session.rights.roles import Role
from everview.session.table import Table
from everview.session.view import View
from everview.sql.answers.system_queries import SCHEMA
from everview.sql.ddl import schemas
from everview.sql.rights import shown_plans
from everview.system.relations import LOGGED, PRESENT
from everview.types import FREE, MOST_DIGITS, DataType

if TYPE_CHECKING:
    from everview.session.session import Session

FIRST_OID = 16384
PUBLIC, PG_CATALOG, INFORMATION, OBSERVED = 2200, 11, 13000, 13999
OWNER, DATABASE = 10, 5
_SYSTEM = 12000
"""Numbers of the catalogue's own relations begin here."""


@dataclass(frozen=True)
class ColumnPicture:
    """A column."""

    name: str
    type: DataType
    comment: str = ""


@dataclass(frozen=True)
class IndexPicture:
    """An index that has a name, or a key."""

    name: str
    columns: tuple[int, ...]
    primary: bool = False
    unique: bool = False


@dataclass(frozen=True)
class RelationPicture:
    """A table or view."""

    schema: str
    name: str
    kind: str
    """r for tables, v for views"""
    columns: tuple[ColumnPicture, ...]
    indexes: tuple[IndexPicture, ...] = ()
    definition: str = ""
    comment: str = ""
    made: tuple[int, int] = (0, 0)
    """when: one of the same name that is made again is another"""
    rights: RightsPicture = field(default_factory=RightsPicture)
    rules: tuple[Rule, ...] = ()
    defaults: tuple[tuple[str, Missing], ...] = ()

    @property
    def label(self) -> str:
        """Its name in the session."""
        return self.name if self.schema == schemas.PUBLIC else f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class FunctionPicture:
    """A function, and its signature as far as it is known."""

    name: str
    arguments: str = ""
    returns: str = ""
    body: str = ""


@dataclass(frozen=True)
class Picture:
    """All that the catalogue tells of a session."""

    schemas: tuple[str, ...]
    relations: tuple[RelationPicture, ...]
    functions: tuple[FunctionPicture, ...] = ()
    enums: tuple[tuple[str, tuple[str, ...]], ...] = ()
    roles: tuple[Role, ...] = ()
    sequences: tuple[SequenceMade, ...] = ()
    free: bool = False
    """whether whoever asks may do everything"""


def pictured(session: Session, plans: dict[tuple[str, int], str]) -> Picture:
    """What a session has; on the engine's thread. `plans` remembers what views are, which does not change."""
    core = core_of(session)
    catalog = core.catalog
    indexes: dict[str, list[IndexPicture]] = {}
    for name, (one, index) in sorted(catalog.indexes().items()):
        indexes.setdefault(relation_of(one).label, []).append(IndexPicture(name, tuple(index.keys)))
    rules: dict[str, list[Rule]] = {}
    for rule in sorted(core.constraints.rules(), key=lambda r: r.name):
        rules.setdefault(rule.table, []).append(rule)
    found = []
    for kind, names in (("r", session.tables), ("v", session.views)):
        for full in names:
            one = session[full]
            schema, _, name = full.rpartition(".")
            shown = core.access.shown(full)
            columns = tuple(
                ColumnPicture(column, declared, catalog.comments.get((full, column), ""))
                for column, declared in declared_columns(relation_of(one))
                if shown is None or column in shown
            )
            listed = indexes.get(relation_of(one).label, []) if shown is None else []
            known = tuple(rules.get(full, ())) if shown is None and kind == "r" else ()
            hidden = {rule.name for rule in known if rule.kind == FOREIGN_KEY}  # what looks up its rows is no index
            keys = {rule.name for rule in known if rule.kind == UNIQUE}
            listed = [replace(i, unique=i.name in keys) for i in listed if i.name not in hidden]
            if isinstance(one, Table) and relation_of(one).key and shown is None:
                listed = [IndexPicture(f"{name}_pkey", tuple(relation_of(one).key), True, True), *listed]
            missing = core.defaults.of(one) if isinstance(one, Table) and shown is None else {}
            own = core.access.owns("relation", full)
            definition = _plan(core, full, one, plans) if isinstance(one, View) and own else ""
            found.append(
                RelationPicture(
                    schema or schemas.PUBLIC,
                    name,
                    kind,
                    columns,
                    tuple(listed),
                    definition,
                    catalog.comments.get((full, ""), ""),
                    (relation_of(one).installed_at, relation_of(one).id if isinstance(one, Table) else 0),
                    RightsPicture.of(core.access, full),
                    known,
                    tuple(missing.items()),
                )
            )
    observed = _observed(core)
    enums = tuple((name, t.names) for name, t in sorted(core.types.items()) if t.kind == "enum")
    access = core.access
    functions = tuple(
        _function(catalog.sql_functions.get(f), f)
        for f in sorted({*catalog.sql_functions, *core.functions})
        if access.sees("function", f.lower())
    )
    sequences = tuple(s for name, s in sorted(catalog.sequences.items()) if access.sees("sequence", name))
    made = tuple(s for s in schemas.made(core) if access.sees("schema", s))
    if observed:
        made = (*made, SCHEMA)
    free = access.acting() is None
    return Picture((schemas.PUBLIC, *made), (*found, *observed), functions, enums, roles_shown(access), sequences, free)


def _function(made: FunctionMade | None, name: str) -> FunctionPicture:
    """A function written in SQL, or of the serving program."""
    if made is None:
        return FunctionPicture(name)
    of = ("SETOF " if made.rows else "") + made.returns
    if made.rows and made.columns and all(n for n, _ in made.columns):
        of = "TABLE(" + ", ".join(f"{n} {t}" for n, t in made.columns) + ")"
    return FunctionPicture(name, ", ".join(f"{n} {t}".strip() for n, t in made.parameters), of, made.body)


def _observed(core: Core) -> tuple[RelationPicture, ...]:
    """The schema `ev`, for those who may look at it; one of that name that somebody has made hides it."""
    who = core.access.acting()
    if SCHEMA in schemas.made(core) or (who is not None and MONITOR not in core.access.all_roles(who.name)):
        return ()
    return tuple(
        RelationPicture(SCHEMA, r.name, "r", tuple(ColumnPicture(name, data_type(t)) for name, t in r.columns.items()))
        for r in (*PRESENT, *LOGGED, *core.attached.get("ev", ()))
    )


def _plan(core: Core, name: str, view: View, plans: dict[tuple[str, int], str]) -> str:
    """A view's plan: its text is not kept."""
    if core.access.acting() is not None:
        return "\n".join(shown_plans.lines(core, relation_of(view).source))
    known = (name, relation_of(view).installed_at)
    if known not in plans:
        plans[known] = str(relation_of(view).source.explain())
    return plans[known]


class Numbers:
    """Numbers of things, by what they are; each is given once."""

    def __init__(self) -> None:
        self._given: dict[Any, int] = {}
        self._next = itertools.count(FIRST_OID)

    def of(self, *what: Any) -> int:
        """The number of something."""
        if what not in self._given:
            self._given[what] = next(self._next)
        return self._given[what]

    def relation(self, one: RelationPicture) -> int:
        """The number of a table or view."""
        return self.of("relation", one.schema, one.name, one.kind, one.made)

    def index(self, one: RelationPicture, name: str) -> int:
        """The number of one of its indexes."""
        return self.of("index", one.schema, one.name, name, one.made)


@dataclass
class Contents:
    """Rows by schema and relation, and what functions look up."""

    rows: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    names: dict[int, tuple[str, str]] = field(default_factory=dict)
    """schema and name of each relation, by number"""
    definitions: dict[int, str] = field(default_factory=dict)
    constraints: dict[int, str] = field(default_factory=dict)
    indexes: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    """how an index is made, and its columns"""
    comments: dict[tuple[int, int], str] = field(default_factory=dict)
    roles: dict[int, str] = field(default_factory=dict)
    """names of roles, by number"""
    functions: dict[int, FunctionPicture] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)
    """names of types that were made, by number"""

    def add(self, schema: str, relation: str, **values: Any) -> None:
        """Add a row."""
        self.rows.setdefault((schema, relation), []).append(values)

    def pg(self, relation: str, **values: Any) -> None:
        """Add a row to a relation of pg_catalog."""
        self.add("pg_catalog", relation, **values)

    def info(self, relation: str, **values: Any) -> None:
        """Add a row to one of information_schema."""
        self.add("information_schema", relation, **values)


def contents(picture: Picture, numbers: Numbers, database: str, user: str) -> Contents:
    """The rows of the catalogue."""
    out = Contents()
    spaces = {"pg_catalog": PG_CATALOG, "information_schema": INFORMATION, "public": PUBLIC}
    for name in picture.schemas:
        spaces.setdefault(name, OBSERVED if name == SCHEMA else numbers.of("schema", name))
    for name, oid in spaces.items():
        out.pg("pg_namespace", oid=oid, nspname=name, nspowner=OWNER)
        out.info("schemata", catalog_name=database, schema_name=name, schema_owner=user)
    _server(out, database, user, {role.name for role in picture.roles}, picture.free)
    add_roles(out, picture.roles, numbers)
    _types(out)
    _system(out)
    others = {r.label: r for r in picture.relations if r.kind == "r"}
    triggers = constraint_rows.trigger_tables(picture.relations)
    for relation in picture.relations:
        _relation(out, relation, numbers, spaces[relation.schema], database, user, others, relation.label in triggers)
    for sequence in picture.sequences:
        constraint_rows.add_sequence(out, sequence, numbers, spaces, database, user, _CLASS)
    for name, labels in picture.enums:
        _enum(out, name, labels, numbers, spaces)
    for function in picture.functions:
        name = function.name
        oid = numbers.of("function", name)
        out.functions[oid] = function
        out.pg("pg_proc", oid=oid, proname=name, pronamespace=PUBLIC, proowner=OWNER, prokind="f", provolatile="i",
               proparallel="u", pronargs=0, prorettype=25, proargtypes="", proretset=0, prolang=14,
               prosrc=function.body)  # fmt: skip
        out.info("routines", routine_catalog=database, routine_schema="public", routine_name=name,
                 specific_name=f"{name}_{oid}", routine_type="FUNCTION")  # fmt: skip
    return out


def _enum(out: Contents, full: str, labels: tuple[str, ...], numbers: Numbers, spaces: dict[str, int]) -> None:
    """A type of CREATE TYPE ... AS ENUM. Its columns are told as text, which clients need not know of."""
    schema, _, name = full.rpartition(".")
    oid = numbers.of("type", full)
    out.types[oid] = name
    out.pg("pg_type", oid=oid, typname=name, typnamespace=spaces[schema or schemas.PUBLIC], typowner=OWNER, typlen=4,
           typbyval=1, typtype="e", typcategory="E", typispreferred=0, typisdefined=1, typdelim=",", typrelid=0,
           typelem=0, typarray=0, typinput="enum_in", typoutput="enum_out", typreceive="enum_recv",
           typsend="enum_send", typalign="i", typstorage="p", typnotnull=0, typbasetype=0, typtypmod=-1, typndims=0,
           typcollation=0, typmodin="-", typmodout="-")  # fmt: skip
    for place, label in enumerate(labels, 1):
        out.pg("pg_enum", oid=numbers.of("label", full, label), enumtypid=oid, enumsortorder=float(place),
               enumlabel=label)  # fmt: skip


def _server(out: Contents, database: str, user: str, roles: set[str], free: bool) -> None:
    out.pg("pg_database", oid=DATABASE, datname=database, datdba=OWNER, encoding=6, datlocprovider="c",
           datistemplate=0, datallowconn=1, datconnlimit=-1, datcollate="C.UTF-8", datctype="C.UTF-8",
           dattablespace=1663)  # fmt: skip
    may = int(free)
    role = {"rolname": user, "rolsuper": may, "rolinherit": 1, "rolcreaterole": may, "rolcreatedb": 0,
            "rolcanlogin": 1, "rolreplication": 0, "rolconnlimit": -1, "rolbypassrls": may, "oid": OWNER}  # fmt: skip
    if user not in roles:
        out.pg("pg_roles", **role)
        out.pg("pg_authid", **role)
        out.pg("pg_user", usename=user, usesysid=OWNER, usecreatedb=0, usesuper=may, userepl=0,
               usebypassrls=may)  # fmt: skip
        out.info("enabled_roles", role_name=user)
    out.info("information_schema_catalog_name", catalog_name=database)
    out.info("character_sets", character_set_name="UTF8", default_collate_name="C.UTF-8")
    out.pg("pg_am", oid=2, amname="heap", amtype="t", amhandler="heap_tableam_handler")
    out.pg("pg_am", oid=403, amname="btree", amtype="i", amhandler="bthandler")
    out.pg("pg_tablespace", oid=1663, spcname="pg_default", spcowner=OWNER)
    out.pg("pg_language", oid=14, lanname="sql", lanowner=OWNER, lanispl=0, lanpltrusted=1)
    out.pg("pg_collation", oid=100, collname="default", collnamespace=PG_CATALOG, collowner=OWNER, collprovider="d",
           collisdeterministic=1, collencoding=-1)  # fmt: skip
    out.pg("pg_collation", oid=950, collname="C", collnamespace=PG_CATALOG, collowner=OWNER, collprovider="c",
           collisdeterministic=1, collencoding=-1, collcollate="C", collctype="C")  # fmt: skip
    for name, value in Settings().all():
        out.pg("pg_settings", name=name, setting=value, context="user", vartype="string", source="default",
               boot_val=value, reset_val=value, pending_restart=0)  # fmt: skip
    for word in _RESERVED:
        out.pg("pg_get_keywords", word=word.lower(), catcode="R", catdesc="reserved", barelabel=0)
    out.pg("pg_timezone_names", name="UTC", abbrev="UTC", utc_offset="00:00:00", is_dst=0)


_RESERVED = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION",
    "INTERSECT", "EXCEPT", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "LATERAL", "USING",
    "WINDOW", "QUALIFY", "WITH", "RECURSIVE", "VALUES", "INSERT", "INTO", "UPDATE", "DELETE", "TRUNCATE", "CREATE",
    "TABLE", "VIEW", "MATERIALIZED", "DROP", "BEGIN", "COMMIT", "ROLLBACK", "EXPLAIN", "SHOW", "SUBSCRIBE",
    "BETWEEN", "EXISTS", "CASE", "WHEN", "THEN", "ELSE", "END", "PRIMARY", "CASCADE",
)  # fmt: skip
"""Words that `pg_get_keywords` reports: clients quote names that are among them."""

_ARRAY_RECEIVE = "2400"
"""The function by which drivers tell arrays from other types."""


def _types(out: Contents) -> None:
    out.pg("pg_proc", oid=int(_ARRAY_RECEIVE), proname="array_recv", pronamespace=PG_CATALOG, proowner=OWNER,
           prokind="f", provolatile="s", pronargs=3, prorettype=2277, proargtypes="2281 26 23", proretset=0,
           prolang=14, prosrc="array_recv")  # fmt: skip
    for one in TYPES.values():
        fixed = one.size in (1, 2, 4, 8)
        kind = "p" if one.category == "P" else "b"
        shared: dict[str, Any] = {
            "typnamespace": PG_CATALOG, "typowner": OWNER, "typisdefined": 1, "typdelim": ",", "typrelid": 0,
            "typnotnull": 0, "typbasetype": 0, "typtypmod": -1, "typndims": 0, "typispreferred": 0, "typalign": "i",
            "typmodin": "-", "typmodout": "-",
        }  # fmt: skip
        out.pg("pg_type", oid=one.oid, typname=one.name, typlen=one.size, typbyval=int(fixed), typtype=kind,
               typcategory=one.category, typelem=0, typarray=one.array, typinput=f"{one.name}in",
               typoutput=f"{one.name}out", typreceive="0", typsend=f"{one.name}send", typstorage="p",
               typcollation=100 if one.category == "S" else 0, **shared)  # fmt: skip
        if one.array:
            out.pg("pg_type", oid=one.array, typname=f"_{one.name}", typlen=-1, typbyval=0, typtype="b",
                   typcategory="A", typelem=one.oid, typarray=0, typinput="array_in", typoutput="array_out",
                   typreceive=_ARRAY_RECEIVE, typsend="array_send", typstorage="x",
                   typcollation=100 if one.category == "S" else 0, **shared)  # fmt: skip


_CLASS: dict[str, Any] = {
    "reltype": 0, "reloftype": 0, "relowner": OWNER, "relfilenode": 0, "reltablespace": 0, "relpages": 1,
    "relallvisible": 0, "reltoastrelid": 0, "relisshared": 0, "relpersistence": "p", "relchecks": 0, "relhasrules": 0,
    "relhastriggers": 0, "relhassubclass": 0, "relrowsecurity": 0, "relforcerowsecurity": 0, "relispopulated": 1,
    "relreplident": "d", "relispartition": 0, "relrewrite": 0, "reltuples": -1.0, "relhasoids": 0,
    "relfrozenxid": 0, "relminmxid": 0,
}  # fmt: skip


def _system(out: Contents) -> None:
    """The catalogue's own relations, which some clients list."""
    number = itertools.count(_SYSTEM)
    for schema, space in (("pg_catalog", PG_CATALOG), ("information_schema", INFORMATION)):
        for name in RELATIONS[schema]:
            known = {"pg_class": 1259, "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_namespace": 2615,
                     "pg_constraint": 2606, "pg_database": 1262, "pg_trigger": 2620, "pg_rewrite": 2618}  # fmt: skip
            oid = known.get(name) or next(number)
            out.names[oid] = schema, name
            out.pg("pg_class", oid=oid, relname=name, relnamespace=space, relam=2, relhasindex=0, relkind="r" if
                   schema == "pg_catalog" else "v", relnatts=len(RELATIONS[schema][name]), **_CLASS)  # fmt: skip
            out.info("tables", table_schema=schema, table_name=name, table_type="VIEW")


def _relation(
    out: Contents, one: RelationPicture, numbers: Numbers, space: int, database: str, user: str,
    others: Mapping[str, RelationPicture], triggers: bool,
) -> None:  # fmt: skip
    oid = numbers.relation(one)
    out.names[oid] = one.schema, one.name
    place = {"table_catalog": database, "table_schema": one.schema, "table_name": one.name}
    table = one.kind == "r"
    out.pg("pg_class", oid=oid, relname=one.name, relnamespace=space, relam=2 if table else 0, relkind=one.kind,
           relhasindex=int(bool(one.indexes)), relnatts=len(one.columns),
           **{**_CLASS, **one.rights.columns(numbers, user), "relhastriggers": int(triggers),
              "relchecks": sum(rule.kind == CHECK for rule in one.rules)})  # fmt: skip
    add_policies(out, one.rights, oid, numbers, one.schema, one.name)
    out.info("tables", table_type="BASE TABLE" if table else "VIEW", is_insertable_into="YES" if table else "NO",
             is_typed="NO", **place)  # fmt: skip
    named = {"schemaname": one.schema}
    if table:
        out.pg("pg_tables", tablename=one.name, tableowner=user, hasindexes=int(bool(one.indexes)), hasrules=0,
               hastriggers=0, rowsecurity=int(one.rights.row_security), **named)  # fmt: skip
        out.pg("pg_stat_user_tables", relid=oid, relname=one.name, **named)
        out.pg("pg_stat_all_tables", relid=oid, relname=one.name, **named)
    else:
        out.definitions[oid] = one.definition
        out.pg("pg_views", viewname=one.name, viewowner=user, definition=one.definition, **named)
        out.info("views", view_definition=one.definition, check_option="NONE", is_updatable="NO",
                 is_insertable_into="NO", **place)  # fmt: skip
    if one.comment:
        _comment(out, oid, 0, one.comment)
    every = ("SELECT", "INSERT", "UPDATE", "DELETE") if table else ("SELECT",)
    for privilege in every if one.rights.owner == user or user not in out.roles.values() else ():
        for relation in ("table_privileges", "role_table_grants"):
            out.info(relation, grantor=user, grantee=user, privilege_type=privilege, is_grantable="NO", **place)
    for grant in one.rights.given:
        told = {"grantor": grant.by or one.rights.owner or user, "grantee": grant.role,
                "privilege_type": grant.privilege, "is_grantable": "YES" if grant.option else "NO"}  # fmt: skip
        for relation in ("table_privileges", "role_table_grants") if not grant.columns else ():
            out.info(relation, **told, **place)
        for name in grant.columns:
            out.info("column_privileges", column_name=name, **told, **place)
    defaults = dict(one.defaults)
    for number, column in enumerate(one.columns, 1):
        _column(out, oid, number, column, place, defaults.get(column.name), numbers)
    for index in one.indexes:
        _index(out, one, oid, index, numbers, space, place)
    constraint_rows.add_rules(out, one, oid, others, numbers, space, place)


def _comment(out: Contents, oid: int, number: int, text: str) -> None:
    out.comments[oid, number] = text
    out.pg("pg_description", objoid=oid, classoid=1259, objsubid=number, description=text)


def _column(
    out: Contents, oid: int, number: int, column: ColumnPicture, place: dict[str, Any], missing: Missing | None,
    numbers: Numbers,
) -> None:  # fmt: skip
    declared = column.type
    told, modifier = oid_of(declared), modifier_of(declared)
    size = size_of(told)
    filled = {"atthasdef": 0, "attidentity": "", "attgenerated": ""}
    if missing is not None:
        filled |= constraint_rows.add_default(out, numbers, oid, number, missing)
    out.pg("pg_attribute", attrelid=oid, attname=column.name, atttypid=told, attstattarget=-1, attlen=size,
           attnum=number, attndims=int(declared.kind == "array"), attcacheoff=-1, atttypmod=modifier,
           attbyval=int(size in (1, 2, 4, 8)), attalign="i", attstorage="p" if size > 0 else "x", attcompression="",
           attnotnull=int(not declared.nullable), atthasmissing=0, attisdropped=0, attislocal=1, attinhcount=0,
           attcollation=100 if told in (25, 1042, 1043, 1009) else 0, **filled)  # fmt: skip
    if column.comment:
        _comment(out, oid, number, column.comment)
    array = declared.kind == "array"
    numeric = {20: (64, 2, 0), 23: (32, 2, 0), 21: (16, 2, 0), 701: (53, 2, None)}.get(told, (None, None, None))
    if declared.kind == "decimal":
        numeric = declared.width or 18, 10, declared.scale
    elif declared.kind == "numeric" and declared.scale < FREE:
        numeric = declared.width or MOST_DIGITS, 10, declared.scale
    name = next((t.name for t in TYPES.values() if t.oid == told), None)
    udt = name or "_" + next(t.name for t in TYPES.values() if t.array == told)
    out.info("columns", column_name=column.name, ordinal_position=number,
             is_nullable="YES" if declared.nullable else "NO", data_type="ARRAY" if array else TYPES[told].words,
             character_maximum_length=declared.width or None if declared.kind in ("char", "str") else None,
             numeric_precision=numeric[0], numeric_precision_radix=numeric[1], numeric_scale=numeric[2],
             datetime_precision=6 if told in (1083, 1114, 1184, 1186) else 0 if told == 1082 else None,
             udt_catalog=place["table_catalog"], udt_schema="pg_catalog", udt_name=udt, dtd_identifier=str(number),
             is_self_referencing="NO", is_updatable="YES", **constraint_rows.told_default(missing),
             **place)  # fmt: skip


def _index(
    out: Contents, one: RelationPicture, oid: int, index: IndexPicture, numbers: Numbers, space: int,
    place: dict[str, Any],
) -> None:  # fmt: skip
    number = numbers.index(one, index.name)
    names = [one.columns[c].name for c in index.columns]
    places = [c + 1 for c in index.columns]
    unique = int(index.unique)
    out.names[number] = one.schema, index.name
    out.pg("pg_class", oid=number, relname=index.name, relnamespace=space, relam=403, relkind="i", relhasindex=0,
           relnatts=len(names), **_CLASS)  # fmt: skip
    listed = " ".join(map(str, places))
    out.pg("pg_index", indexrelid=number, indrelid=oid, indnatts=len(names), indnkeyatts=len(names),
           indisunique=unique, indnullsnotdistinct=0, indisprimary=int(index.primary), indisexclusion=0, indimmediate=1,
           indisclustered=0, indisvalid=1, indcheckxmin=0, indisready=1, indislive=1, indisreplident=0, indkey=listed,
           indcollation=" ".join("0" * len(names)), indclass=" ".join("0" * len(names)),
           indoption=" ".join("0" * len(names)))  # fmt: skip
    for at, name in enumerate(names, 1):
        column = one.columns[index.columns[at - 1]]
        told = oid_of(column.type)
        out.pg("pg_attribute", attrelid=number, attname=name, atttypid=told, attlen=size_of(told), attnum=at,
               atttypmod=-1, attnotnull=0, atthasdef=0, attidentity="", attgenerated="", attisdropped=0, attislocal=1,
               attinhcount=0, attcollation=0, attstattarget=-1, attndims=0, attstorage="p",
               attcompression="")  # fmt: skip
    quoted = ", ".join(map(quoted_name, names))
    made = f"CREATE {'UNIQUE ' if unique else ''}INDEX {quoted_name(index.name)} ON {quoted_name(one.schema)}."
    made += f"{quoted_name(one.name)} USING btree ({quoted})"
    out.indexes[number] = made, names
    out.pg("pg_indexes", schemaname=one.schema, tablename=one.name, indexname=index.name, indexdef=made)
    if not index.primary:
        return
    key = numbers.of("constraint", one.schema, one.name, index.name, one.made)
    constraint_rows.add_key(out, one, "p", key, oid, number, index.name, names, f"PRIMARY KEY ({quoted})", space,
                            place)  # fmt: skip
