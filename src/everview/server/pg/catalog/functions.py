"""Functions that catalogue queries call, for SQLite.

Arrays are texts in PostgreSQL's format ({a,b}); booleans are 0 and 1. Unsupported features (triggers, partitions)
behave as in a database that has none.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.errors import EverviewError
from everview.expr.library.regex_functions import in_re2
from everview.expr.text_conversion import of_text
from everview.server.pg.catalog.contents import Contents
from everview.server.pg.catalog.names import quoted_name
from everview.server.pg.catalog.privileges import has_privilege
from everview.server.pg.oids import TYPES, named
from everview.server.pg.settings import Settings, shown_to
from everview.server.pg.sqlstates import PgError
from everview.session.rights.access import Access
from everview.session.rights.principal import Principal
from everview.sql.text.dialects import version
from everview.types import STR, array

_ARRAY = of_text(array(STR))
_ITEMS = {t.array: t for t in TYPES.values() if t.array}


@dataclass
class Asker:
    """The requesting connection: the subject of functions such as current_user."""

    settings: Settings
    user: str
    database: str
    process: int
    who: Principal
    access: Access


def items(value: Any) -> list[Any]:
    """The items of an array, or of an int2vector."""
    if value is None:
        return []
    if isinstance(value, int):
        return [value]
    text = str(value)
    if text.startswith("{"):
        return list(_ARRAY(text))
    return text.split()


def written(values: Any) -> str:
    """An array of values.

    >>> written(["a", None, "b c"])
    '{a,NULL,"b c"}'
    """
    parts = []
    for value in values:
        said = "NULL" if value is None else str(value)
        if value is not None and (not said or re.search(r'[\s{},"\\]', said) or said.upper() == "NULL"):
            said = '"' + said.replace("\\", "\\\\").replace('"', '\\"') + '"'
        parts.append(said)
    return "{" + ",".join(parts) + "}"


def format_type(oid: Any, modifier: Any = None) -> str | None:
    """A type's name as SQL writes it.

    >>> format_type(1700, 1179654), format_type(1016), format_type(23)
    ('numeric(18,2)', 'bigint[]', 'integer')
    """
    if oid is None:
        return None
    oid = int(oid)
    if oid in _ITEMS:
        return f"{format_type(_ITEMS[oid].oid, modifier)}[]"
    if oid not in TYPES:
        return "-" if oid == 0 else "???"
    words = TYPES[oid].words
    if modifier is not None and int(modifier) >= 0:
        said = int(modifier) - 4
        if oid == 1700:
            return f"numeric({said >> 16},{said & 0xFFFF})"
        if oid in (1042, 1043):
            return f"{words}({said})"
    return words


def _matches(pattern: Any, text: Any, *, fold: bool = False) -> int | None:
    if pattern is None or text is None:
        return None
    try:  # RE2, which takes linear time for any pattern: Python's may take forever, and nothing would stop it
        found = pc.match_substring_regex(pa.array([str(text)]), pattern=in_re2(str(pattern)), ignore_case=fold)
    except pa.ArrowInvalid:
        raise PgError("E_PATTERN", "2201B", f"{pattern!r} is not a regular expression", "correct it") from None
    return int(found[0].as_py())


def _part_of(name: str) -> list[str]:
    """The parts of a name: "My schema".t"""
    return [
        p[1:-1].replace('""', '"') if p.startswith('"') else p.lower()
        for p in re.findall(r'"(?:[^"]|"")*"|[^."]+', name)
    ]


class Functions:
    """The functions over one state of the catalog, for one requester at a time."""

    def has(self, kind: str, *given: Any) -> int | None:
        """has_table_privilege and its like."""
        assert self.asker is not None
        return has_privilege(self.asker.access, kind, lambda thing: self._thing(kind, thing))(self.asker.who, *given)

    def _thing(self, kind: str, given: Any) -> str | None:
        """What a privilege is about, as rights are kept."""
        if kind != "relation":
            name = str(given).partition("(")[0].strip().strip('"')
            spaces = {row["oid"]: row["nspname"] for row in self.contents.rows.get(("pg_catalog", "pg_namespace"), [])}
            return str(spaces.get(given, name))
        found = self.contents.names.get(int(self.needed_relation(given) or 0))
        if found is None:
            return None
        schema, name = found
        if schema in ("pg_catalog", "information_schema"):
            return None
        return name if schema == "public" else f"{schema}.{name}"

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.asker: Asker | None = None
        self.error: EverviewError | None = None
        """what a function has raised"""
        self._relations: dict[str, dict[str, int]] = {}
        for oid, (schema, name) in contents.names.items():
            self._relations.setdefault(name, {})[schema] = oid

    # who asks

    @property
    def _settings(self) -> Settings:
        assert self.asker is not None
        return self.asker.settings

    def _path(self) -> list[str]:
        there = {r["nspname"] for r in self.contents.rows["pg_catalog", "pg_namespace"]}
        return [p for p in self._settings.path if p in there]

    def setting(self, name: str, missing_ok: Any = 0) -> str | None:
        """current_setting"""
        assert self.asker is not None
        try:
            return shown_to(self.asker.who, self.asker.settings, name)
        except PgError:
            if missing_ok:
                return None
            raise

    def set_config(self, name: str, value: str, local: Any) -> str:
        """set_config"""
        self._settings.set(name, value, local=bool(local))
        return self._settings.show(name)

    # relations

    def relation(self, text: Any) -> int | None:
        """A relation's number by its name, or by its number; None if there is none."""
        if text is None or isinstance(text, int):
            return text
        if str(text).isdecimal():
            return int(text)
        *schema, name = _part_of(str(text))
        known = self._relations.get(name, {})
        if schema:
            return known.get(schema[-1])
        return next((known[s] for s in ("pg_catalog", *self._path()) if s in known), None)

    def needed_relation(self, text: Any) -> int | None:
        """The same; an error if there is none."""
        found = self.relation(text)
        if found is None and text is not None:
            raise PgError("E_TABLE", "42P01", f"there is no table or view {text}", "check its name")
        return found

    def function(self, oid: Any, part: str) -> str | None:
        """A part of a function's signature."""
        found = self.contents.functions.get(int(oid or 0))
        return None if found is None else str(getattr(found, part))

    def needed_function(self, name: Any) -> Any:
        """A function's number, by its name, or by that; those of PostgreSQL itself go by their names here."""
        if str(name).isdecimal():
            return int(name)
        if str(name).startswith("pg_catalog."):
            return name
        plain = _part_of(str(name))[-1] if str(name) else ""
        found = next((oid for oid, f in self.contents.functions.items() if f.name == plain), None)
        if found is None:
            raise PgError("E_FUNCTION", "42883", f"there is no function {name}", "check its name")
        return found

    def function_definition(self, oid: Any) -> str | None:
        """A function as CREATE FUNCTION would make it; those of the serving program have no text."""
        found = self.contents.functions.get(int(oid or 0))
        if found is None or not found.body:
            return None
        head = f"CREATE OR REPLACE FUNCTION {quoted_name(found.name)}({found.arguments})\n RETURNS {found.returns}"
        return f"{head}\n LANGUAGE sql\nAS $function$ {found.body} $function$\n"

    def relation_name(self, oid: Any) -> str | None:
        """A relation's name by its number, with its schema if that is not on the path."""
        if oid is None:
            return None
        if not str(oid).isdecimal():
            return str(oid)
        schema, name = self.contents.names.get(int(oid), ("", str(oid)))
        plain = quoted_name(name)
        return plain if not schema or schema in ("pg_catalog", *self._path()) else f"{quoted_name(schema)}.{plain}"

    def visible(self, oid: Any) -> int | None:
        """Whether a relation is found without its schema."""
        if oid is None or int(oid) not in self.contents.names:
            return None if oid is None else 0
        schema, name = self.contents.names[int(oid)]
        return int(self.relation(quoted_name(name)) == int(oid) and schema in ("pg_catalog", *self._path()))

    def type_number(self, text: Any) -> int | None:
        """A type's number by its name."""
        if text is None or isinstance(text, int):
            return text
        if str(text).isdecimal():
            return int(text)
        name = str(text)
        found = named(name.removesuffix("[]").split("(")[0])
        return None if found is None else found.array if name.endswith("[]") else found.oid

    def comment(self, oid: Any, number: Any = 0) -> str | None:
        """obj_description, col_description"""
        at = int(number) if isinstance(number, int) or str(number).isdecimal() else 0
        return None if oid is None else self.contents.comments.get((int(oid), at))

    def indexdef(self, oid: Any, column: Any = 0, pretty: Any = 0) -> str | None:
        """pg_get_indexdef"""
        made, columns = self.contents.indexes.get(int(oid or 0), ("", []))
        if column:
            return columns[int(column) - 1] if 0 < int(column) <= len(columns) else ""
        return made or None

    def install(self, db: sqlite3.Connection) -> None:
        """Make all of them known to SQLite."""

        def add(name: str, function: Callable[..., Any]) -> None:
            def call(*arguments: Any) -> Any:
                try:
                    return function(*arguments)
                except EverviewError as error:  # SQLite only tells that something went wrong
                    self.error = error
                    raise

            db.create_function(name, -1, call)

        c = self.contents
        who = self
        add("version", version)
        add("current_schema", lambda: next(iter(who._path()), None))
        add("current_schemas", lambda system: written([*(["pg_catalog"] if system else []), *who._path()]))
        add("current_database", lambda: who.asker.database if who.asker else None)
        for name in ("current_user_", "session_user_"):
            add(name, lambda: who.asker.user if who.asker else None)
        add("pg_backend_pid", lambda: who.asker.process if who.asker else 0)
        add("current_setting", self.setting)
        add("set_config", self.set_config)
        add("to_regclass", self.relation)
        add("regclass_", self.needed_relation)
        add("regclass_name_", self.relation_name)
        add("to_regtype", self.type_number)
        add("regtype_", self.type_number)
        add("to_regnamespace", lambda name: name)
        add("format_type", lambda oid, *modifier: c.types.get(oid) or format_type(oid, *modifier))
        add("regproc_", self.needed_function)
        add("pg_partition_ancestors", lambda oid: oid)  # there are no partitions
        for name in ("pg_table_is_visible", "pg_relation_is_visible"):
            add(name, self.visible)
        for name in ("pg_type_is_visible", "pg_function_is_visible", "pg_collation_is_visible",
                     "pg_operator_is_visible",
                     "pg_opclass_is_visible", "pg_opfamily_is_visible", "pg_ts_config_is_visible",
                     "pg_ts_dict_is_visible", "pg_statistics_obj_is_visible", "pg_conversion_is_visible",
                     "has_database_privilege", "has_sequence_privilege", "pg_has_role", "has_type_privilege",
                     "has_language_privilege", "has_tablespace_privilege"):  # fmt: skip
            add(name, lambda *a: 1)
        for name in ("has_table_privilege", "has_any_column_privilege"):
            add(name, lambda *a: self.has("relation", *a))
        add("has_column_privilege", lambda *a: self.has("relation", *a[:-2], a[-1]))
        add("has_schema_privilege", lambda *a: self.has("schema", *a))
        add("has_function_privilege", lambda *a: self.has("function", *a))
        for name in ("pg_is_in_recovery", "pg_relation_is_publishable", "pg_is_other_temp_schema", "pg_my_temp_schema",
                     "txid_current_", "pg_database_size", "pg_total_relation_size", "pg_relation_size",
                     "pg_table_size", "pg_indexes_size", "pg_tablespace_size", "age", "mxid_age", "pg_jit_available",
                     "pg_index_has_property", "pg_is_wal_replay_paused"):  # fmt: skip
            add(name, lambda *a: 0)
        add("pg_size_pretty", lambda size: f"{size} bytes")
        add("pg_get_userbyid", lambda oid: c.roles.get(int(oid or 0)) or (who.asker.user if who.asker else None))
        add("pg_encoding_to_char", lambda number: "UTF8")
        for name in ("pg_client_encoding", "getdatabaseencoding"):
            add(name, lambda: "UTF8")
        add("pg_get_viewdef", lambda oid, *a: c.definitions.get(int(self.relation(oid) or 0)))
        add("pg_get_constraintdef", lambda oid, *a: c.constraints.get(int(oid or 0)))
        add("pg_get_indexdef", self.indexdef)
        add("pg_get_function_result", lambda oid: self.function(oid, "returns"))
        add("pg_get_functiondef", self.function_definition)
        for name in ("pg_get_function_arguments", "pg_get_function_identity_arguments"):
            add(name, lambda oid: self.function(oid, "arguments"))
        add("pg_get_expr", lambda expression, *a: expression)
        for name in ("obj_description", "col_description", "shobj_description"):
            add(name, self.comment)
        for name in ("pg_get_serial_sequence", "pg_get_ruledef", "pg_get_triggerdef", "pg_get_partkeydef",
                     "pg_get_function_sqlbody", "pg_tablespace_location",
                     "pg_get_statisticsobjdef", "pg_get_statisticsobjdef_columns", "pg_get_partition_constraintdef",
                     "pg_postmaster_start_time", "pg_conf_load_time", "inet_server_addr", "inet_client_addr",
                     "pg_last_wal_receive_lsn", "pg_current_wal_lsn", "pg_relation_filenode", "pg_stat_get_numscans",
                     "pg_describe_object", "pg_identify_object", "pg_options_to_table", "pg_char_to_encoding",
                     "to_regproc", "to_regrole", "acldefault", "pg_export_snapshot", "inet_server_port"):  # fmt: skip
            add(name, lambda *a: None)
        _texts(add)
        _arrays(add)
        db.create_aggregate("array_agg", -1, _ArrayAgg)  # type: ignore[arg-type]
        db.create_aggregate("string_agg", 2, _StringAgg)  # type: ignore[arg-type]
        db.create_aggregate("bool_or", 1, _BoolOr)  # type: ignore[arg-type]
        db.create_aggregate("bool_and", 1, _BoolAnd)  # type: ignore[arg-type]


def _texts(add: Callable[..., None]) -> None:
    add("regex_", lambda pattern, text: _matches(pattern, text))
    add("iregex_", lambda pattern, text: _matches(pattern, text, fold=True))
    add("quote_ident", lambda name: None if name is None else quoted_name(str(name)))
    add("quote_literal", lambda text: None if text is None else "'" + str(text).replace("'", "''") + "'")
    add("concat", lambda *a: "".join("" if x is None else str(x) for x in a))
    add("concat_ws", lambda mark, *a: str(mark).join(str(x) for x in a if x is not None))
    add("format_", _formatted)
    add("regexp_replace", _replaced)
    add("split_part", lambda text, mark, n: _split(text, mark, n))
    add("left_", lambda text, n: None if text is None else str(text)[: int(n)])
    add("parse_ident", lambda name, *a: written(_part_of(str(name))))
    add("json_build_object", lambda *a: json.dumps({str(k): v for k, v in zip(a[::2], a[1::2], strict=False)}))
    add("jsonb_build_object", lambda *a: json.dumps({str(k): v for k, v in zip(a[::2], a[1::2], strict=False)}))
    add("now_", lambda: None)


def _formatted(template: str, *values: Any) -> str:
    """format('%I.%s', ...)"""
    left = iter(values)

    def one(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        value = next(left, None)
        if found[1] == "I":
            return quoted_name(str(value))
        if found[1] == "L":
            return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"
        return "" if value is None else str(value)

    return re.sub(r"%([sIL%])", one, str(template))


def _replaced(text: Any, pattern: Any, new: Any, flags: Any = "") -> str | None:
    if text is None or pattern is None:
        return None
    most = None if "g" in str(flags) else 1
    try:
        found = pc.replace_substring_regex(pa.array([str(text)]), in_re2(str(pattern)), str(new), max_replacements=most)
    except pa.ArrowInvalid:
        raise PgError("E_PATTERN", "2201B", f"{pattern!r} is not a regular expression", "correct it") from None
    return str(found[0].as_py())


MOST_NUMBERS = 1_000_000
"""How long a series may be."""


def _series(first: Any, last: Any, step: Any = 1) -> str:
    """generate_series, as a list."""
    numbers = range(int(first or 1), int(last or 0) + 1, int(step))
    if len(numbers) > MOST_NUMBERS:
        raise PgError("E_RANGE", "54000", f"a series of more than {MOST_NUMBERS:,} numbers", "ask for less")
    return json.dumps(list(numbers))


def _split(text: Any, mark: Any, n: Any) -> str | None:
    if text is None:
        return None
    parts = str(text).split(str(mark))
    return parts[int(n) - 1] if 0 < int(n) <= len(parts) else ""


def _arrays(add: Callable[..., None]) -> None:
    add("array_", lambda *a: written(a))
    add("in_array_", _in_array)
    add("array_json_", lambda value: json.dumps([_number(i) for i in items(value)]))
    add("series_json_", _series)
    add("array_to_string", lambda value, mark, *null: None if value is None else str(mark).join(
        str(i) for i in items(value) if i is not None))  # fmt: skip
    add("string_to_array", lambda text, mark, *null: None if text is None else written(str(text).split(str(mark))))
    add("array_length", lambda value, n=1: len(items(value)) or None)
    add("cardinality", lambda value: None if value is None else len(items(value)))
    add("array_lower", lambda value, n=1: 1 if items(value) else None)
    add("array_upper", lambda value, n=1: len(items(value)) or None)
    add("array_item_", _item)
    add("array_at_", lambda listed, key: next(iter(json.loads(listed)[int(key) : int(key) + 1]), None))
    add("subscript_", lambda value, key: int(key) + (1 if str(value).startswith("{") else 0))
    add(
        "array_position",
        lambda value, wanted: next((i for i, x in enumerate(items(value), 1) if str(x) == str(wanted)), None),
    )
    add("array_cat_", lambda a, b: None if a is None and b is None else written([*items(a), *items(b)]))
    add(
        "array_remove",
        lambda value, gone: None if value is None else written(i for i in items(value) if str(i) != str(gone)),
    )


def _number(item: Any) -> Any:
    """An array's item, a number if it is written as one: arrays of the catalogue are of numbers or of names."""
    return int(item) if isinstance(item, str) and item.lstrip("-").isdecimal() else item


def _in_array(value: Any, many: Any) -> int | None:
    if value is None or many is None:
        return None
    return int(str(value) in {str(i) for i in items(many)})


def _item(value: Any, place: Any) -> Any:
    """An element; int2vectors count from 0, arrays from 1."""
    if value is None or place is None:
        return None
    found = items(value)
    at = int(place) - (1 if str(value).startswith("{") else 0)
    return found[at] if 0 <= at < len(found) else None


class _ArrayAgg:
    def __init__(self) -> None:
        self.found: list[Any] = []

    def step(self, *values: Any) -> None:
        self.found.append(values[0])

    def finalize(self) -> str | None:
        return written(self.found) if self.found else None


class _StringAgg:
    def __init__(self) -> None:
        self.found: list[str] = []
        self.mark = ""

    def step(self, value: Any, mark: Any) -> None:
        self.mark = str(mark)
        if value is not None:
            self.found.append(str(value))

    def finalize(self) -> str | None:
        return self.mark.join(self.found) if self.found else None


class _BoolOr:
    def __init__(self) -> None:
        self.found: int | None = None

    def step(self, value: Any) -> None:
        if value is not None:
            self.found = int(bool(self.found) or bool(value))

    def finalize(self) -> int | None:
        return self.found


class _BoolAnd(_BoolOr):
    def step(self, value: Any) -> None:
        if value is not None:
            self.found = int((self.found is None or bool(self.found)) and bool(value))
