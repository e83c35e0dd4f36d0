"""Settings of one connection: SET, SHOW, RESET, and those reported automatically.

Drivers set what they rely on when they connect, and query it. A setting whose PostgreSQL effect is not available here
is refused; a setting without a meaning here is stored and shown. SET LOCAL lasts until the end of the transaction, and
a rollback undoes the transaction's SETs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from everview.errors import did_you_mean
from everview.server.pg.sqlstates import PgError
from everview.session.rights.principal import Principal
from everview.sql.text.dialects import POSTGRES

REPORTED = (
    "application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby",
    "integer_datetimes", "IntervalStyle", "is_superuser", "search_path", "server_encoding", "server_version",
    "session_authorization", "standard_conforming_strings", "TimeZone",
)  # fmt: skip
"""Settings that clients are told of when they connect, and when they change."""

_FIXED = {
    "server_encoding": "UTF8",
    "integer_datetimes": "on",
    "is_superuser": "off",
    "in_hot_standby": "off",
    "standard_conforming_strings": "on",
    "server_version_num": "150000",
    "max_identifier_length": "63",
    "block_size": "8192",
    "max_index_keys": "32",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "data_checksums": "off",
    "ssl": "off",
    "max_connections": "1000",
    "wal_level": "replica",
    "transaction_isolation": "read committed",
    "bytea_output": "hex",
    "array_nulls": "on",
}
"""Settings that cannot be changed; SET to the same value is let pass."""

_DEFAULTS = {
    "application_name": "",
    "client_encoding": "UTF8",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "search_path": '"$user", public',
    "session_authorization": "everview",
    "default_transaction_read_only": "off",
    "transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "extra_float_digits": "1",
    "client_min_messages": "notice",
    "row_security": "on",
    "synchronous_commit": "on",
    "escape_string_warning": "on",
    "check_function_bodies": "on",
    "default_tablespace": "",
    "default_table_access_method": "heap",
    "temp_tablespaces": "",
    "xmloption": "content",
    "xmlbinary": "base64",
    "work_mem": "4MB",
    "role": "none",
    "jit": "off",
    "lc_messages": "C.UTF-8",
    "lc_monetary": "C.UTF-8",
    "lc_numeric": "C.UTF-8",
    "lc_time": "C.UTF-8",
    "gin_pending_list_limit": "4MB",
    "quote_all_identifiers": "off",
    "enable_seqscan": "on",
    "max_parallel_workers_per_gather": "0",
    "tcp_keepalives_idle": "0",
    "default_with_oids": "off",
    "backslash_quote": "safe_encoding",
    "search_path_user": "",
}
"""Settings that can, and how they begin."""

_SPELLED = {name.lower(): name for name in REPORTED}
_ROLES = ("role", "session_authorization")
"""What decides about rights, which is more than a value."""

_FLAGS = {"on": "on", "true": "on", "yes": "on", "1": "on", "off": "off", "false": "off", "no": "off", "0": "off"}
_LEVELS = ("read committed", "repeatable read", "serializable", "read uncommitted")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


class Settings:
    """A connection's settings.

    >>> settings = Settings({"application_name": "psql"})
    >>> settings.set("statement_timeout", "2s"), settings.seconds, settings.show("application_name")
    (None, 2.0, 'psql')
    """

    def __init__(self, given: dict[str, str] | None = None) -> None:
        self._fixed = dict(_FIXED)
        self._values = dict(_DEFAULTS)
        self._values["server_version"] = POSTGRES
        self._before: dict[str, str] | None = None
        self._local: dict[str, str] = {}
        self._marks: list[tuple[str, dict[str, str], dict[str, str]]] = []
        """what there was at each savepoint of the transaction, the local ones apart"""
        self._told: dict[str, str] = {}
        self._changed = True
        """whether there may be news"""
        begun = dict(given or {})
        self._values["session_authorization"] = begun.pop("session_authorization", "everview")
        for name, value in begun.items():
            self.set(name, value)
        self._first = dict(self._values)

    def show(self, name: str) -> str:
        """A setting's value."""
        key = _key(name)
        if key in self._values:
            return self._values[key]
        if key in self._fixed:
            return self._fixed[key]
        raise _unknown(name, [*self._values, *self._fixed])

    def all(self) -> Iterator[tuple[str, str]]:
        """All of them, by name."""
        for key in sorted({*self._values, *self._fixed}):
            yield _SPELLED.get(key, key), self.show(key)

    def set(self, name: str, value: str | None, *, local: bool = False) -> None:
        """Give a setting a value; None: what it began with."""
        key = _key(name)
        if value is None:
            value = self._first.get(key, _DEFAULTS.get(key, self._fixed.get(key, "")))
        if key in self._fixed:
            if value.lower() not in (self._fixed[key].lower(), "default"):
                raise PgError("E_OPTION", "55P02", f"{name} cannot be changed here", f"it is {self._fixed[key]}")
            return
        if key not in self._values and "." not in key:
            raise _unknown(name, [*self._values, *self._fixed])
        if key in _ROLES and value.lower() not in ("none", "default", self._values[key].lower()):
            raise PgError("E_OPTION", "0A000", f"{name} is not set like other settings", "SET ROLE sets it")
        self._put(key, _checked(key, value), local)

    def set_role(self, name: str, *, local: bool = False) -> None:
        """Show the role that the connection acts as; the setting ends with the transaction as others do."""
        self._put("role", name or "none", local)

    def _put(self, key: str, checked: str, local: bool) -> None:
        if local:
            self._local.setdefault(key, self._values.get(key, ""))
        self._values[key] = checked
        self._changed = True

    def reset(self) -> None:
        """Everything as it began, but for the role: as in PostgreSQL, RESET ROLE resets it."""
        self._changed = True
        self._values = {**self._first, "role": self._values["role"]}
        self._local = {key: value for key, value in self._local.items() if key == "role"}

    def begin(self) -> None:
        """A transaction begins."""
        self._before = dict(self._values)
        self._local.clear()
        self._marks.clear()

    def mark(self, savepoint: str) -> None:
        """A savepoint of the transaction."""
        self._marks.append((savepoint, dict(self._values), dict(self._local)))

    def back_to(self, savepoint: str, *, release: bool = False) -> None:
        """Undo what was set since a savepoint; or (`release`) forget it, and those after it."""
        at = max((i for i, (name, _, _) in enumerate(self._marks) if name == savepoint), default=None)
        if at is None:
            return
        if not release:
            _, values, local = self._marks[at]
            self._values, self._local, self._changed = dict(values), dict(local), True
        del self._marks[at if release else at + 1 :]

    def end(self, *, undo: bool) -> None:
        """It ends: what was set inside stays, unless it was local, or all is undone."""
        self._changed = True
        if undo and self._before is not None:
            self._values = self._before
        else:
            self._values.update(self._local)
        self._before = None
        self._local.clear()
        self._marks.clear()

    @property
    def seconds(self) -> float | None:
        """How long a statement may take."""
        return _seconds(self._values["statement_timeout"]) or None

    @property
    def zone(self) -> str:
        """The time zone that moments are shown in."""
        return self._values["timezone"]

    @property
    def path_text(self) -> str:
        """The search path as it was written."""
        return self._values["search_path"]

    @property
    def path(self) -> list[str]:
        """The schemas that names are looked for in."""
        return [p.strip().strip('"') for p in self._values["search_path"].split(",") if p.strip()]

    def news(self) -> list[tuple[str, str]]:
        """Settings that the client wants to know of, and was not told yet."""
        if not self._changed:
            return []
        self._changed = False
        found = [(name, self.show(name)) for name in REPORTED]
        found = [(name, value) for name, value in found if self._told.get(name) != value]
        self._told.update(found)
        return found


def shown_to(who: Principal, settings: Settings, name: str) -> str:
    """What `current_setting` and SHOW tell somebody: an attribute, as policies read it, or a setting.

    >>> shown_to(Principal("ann", {"tenant": "a"}), Settings(), "tenant")
    'a'
    """
    own = who.attributes.get(name.lower().strip())
    return settings.show(name) if own is None else str(own)


def _key(name: str) -> str:
    key = name.lower().strip()
    return {"time zone": "timezone", "transaction isolation level": "transaction_isolation", "names": "client_encoding",
            "session characteristics": "default_transaction_isolation"}.get(key, key)  # fmt: skip


def _unknown(name: str, known: list[str]) -> PgError:
    close = did_you_mean(name, known)
    return PgError("E_OPTION", "42704", f"there is no setting {name}", close if "did you mean" in close else "")


def _checked(key: str, value: str) -> str:
    """A value as it is shown; refuses what cannot be had."""
    if key == "client_encoding":
        if value.strip("'\"").upper().replace("-", "").replace("_", "") not in ("UTF8", "UNICODE", "DEFAULT"):
            raise PgError("E_OPTION", "22023", f"texts are UTF-8 here, not {value}", "set client_encoding to UTF8")
        return "UTF8"
    if key == "datestyle":
        if not re.search(r"iso|mdy|dmy|ymd|default", value, re.IGNORECASE) or re.search(
            "sql|german|postgres", value, re.I
        ):
            raise PgError(
                "E_OPTION", "22023", f"dates are written as ISO 8601 here, not {value}", "SET datestyle = ISO"
            )
        return "ISO, MDY"
    if key == "intervalstyle" and value.lower() not in ("postgres", "default"):
        raise PgError("E_OPTION", "22023", f"intervals are written as PostgreSQL does, not {value}", "leave it")
    if key.endswith("_timeout"):
        return value if _seconds(value) else "0"
    if key == "default_transaction_isolation":
        if value.lower() not in _LEVELS:
            raise PgError(
                "E_OPTION", "22023", f"there is no isolation level {value}", f"there are {', '.join(_LEVELS)}"
            )
        return value.lower()
    if _DEFAULTS.get(key) in ("on", "off"):
        if value.lower() not in _FLAGS:
            raise PgError("E_OPTION", "22023", f"{key} is on or off, not {value}", "")
        return _FLAGS[value.lower()]
    return value


def _seconds(value: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", value.lower())
    if found is None or (found[2] and found[2] not in _SECONDS):
        raise PgError("E_DURATION", "22023", f"{value!r} is not a duration", "write 500 (milliseconds), '2s' or '1min'")
    return float(found[1]) * _SECONDS[found[2] or "ms"]
