"""Statements that request what is already the case: they are checked and do nothing.

    REFRESH MATERIALIZED VIEW v            it is fresh
    VACUUM [t], ANALYZE [t]                merging happens during steps; statistics are computed on demand
    SET client_encoding = 'UTF8'           and others that scripts of pg_dump begin with, with the values that hold here
    CREATE EXTENSION IF NOT EXISTS pgcrypto    its gen_random_uuid is there

Any other value, view or extension is refused: nothing in a statement is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.statements import Statements

HOLDS: dict[str, tuple[str, ...]] = {
    "statement_timeout": ("0",),
    "lock_timeout": ("0",),
    "idle_in_transaction_session_timeout": ("0",),
    "transaction_timeout": ("0",),
    "client_encoding": ("utf8", "utf-8", "unicode"),
    "standard_conforming_strings": ("on", "true"),
    "check_function_bodies": ("true", "false", "on", "off"),
    "xmloption": ("content",),
    "client_min_messages": ("warning", "notice", "error"),
    "row_security": ("off", "on"),
    "default_tablespace": ("",),
    "default_table_access_method": ("heap",),
    "datestyle": ("iso", "iso, mdy", "iso, ymd"),
    "bytea_output": ("hex",),
    "constraint_exclusion": ("on", "off", "partition"),
    "synchronous_commit": ("on",),
    "transaction_isolation": ("serializable", "strict serializable", "repeatable read", "read committed"),
    "default_transaction_isolation": ("serializable", "repeatable read", "read committed"),
    "extra_float_digits": ("1", "2", "3"),
    "intervalstyle": ("postgres",),
}
"""PostgreSQL settings, and the values that hold here or make no difference."""

TUNING = (
    "work_mem", "maintenance_work_mem", "temp_buffers", "random_page_cost", "seq_page_cost", "cpu_tuple_cost",
    "cpu_index_tuple_cost", "cpu_operator_cost", "effective_cache_size", "effective_io_concurrency", "plan_cache_mode",
    "join_collapse_limit", "from_collapse_limit", "force_parallel_mode", "debug_parallel_query",
    "cursor_tuple_fraction",
    "hash_mem_multiplier", "logical_decoding_work_mem", "default_statistics_target", "application_name", "geqo",
    "parallel_leader_participation", "parallel_setup_cost", "parallel_tuple_cost", "recursive_worktable_factor",
    "streaming_parallelism", "query_mode", "cluster", "cluster_replica", "background_ddl", "batch_parallelism",
    "threads", "worker_threads", "memory_limit", "max_memory", "temp_directory", "enable_progress_bar",
    "preserve_insertion_order", "streaming_join_encoding_optimized_for", "sink_decouple",
    "synchronize_seqscans", "track_io_timing", "vacuum_cost_delay", "jit", "execution.runtime-mode",
)  # fmt: skip
"""Performance settings of other systems, which do not affect results."""

TUNING_PREFIXES = (
    "enable_", "max_parallel_", "min_parallel_", "jit_", "geqo_", "streaming_", "rw_", "source_rate", "backfill_rate",
    "datafusion.execution.", "datafusion.optimizer.", "datafusion.explain.", "spark.sql.shuffle.",
    "spark.sql.adaptive.",
    "spark.sql.codegen.", "spark.sql.autobroadcast", "spark.sql.join.prefer", "spark.sql.cbo", "spark.sql.optimizer",
    "table.exec.mini-batch.", "table.exec.resource.", "table.optimizer.", "parallelism.", "pipeline.", "state.backend",
    "sql-client.", "table.display.", "table.dml-sync", "table.plan.",
    "execution.checkpointing.", "execution.parallelism", "auto_vacuum", "autovacuum_", "debug_print_", "log_",
)  # fmt: skip


def is_tuning(name: str) -> bool:
    """Whether a setting does not affect results.

    >>> is_tuning("enable_hashjoin"), is_tuning("intervalstyle")
    (True, False)
    """
    return name in TUNING or name.startswith(TUNING_PREFIXES)


def passed_over(sql: Statements, statement: statement_reader.Statement) -> None:
    """SET name = value of such a setting: issues a notice."""
    name = named(statement)
    statement.notes.notices.append(f"SET {name} is ignored: it changes no answer here")


def named(statement: statement_reader.Statement) -> str:
    """The setting of SET [SESSION | LOCAL] a.b-c = value or RESET, in lower case."""
    words = [t.text.lower() for t in statement.tokens[1:]]
    while words[:1] in (["session"], ["local"]) and len(words) > 1 and words[1] not in ("=", "to"):
        words = words[1:]
    end = next((i for i, word in enumerate(words) if word in ("=", "to")), len(words))
    return "".join(words[:end]).strip("'")


def nothing(sql: Statements, statement: statement_reader.Statement) -> None:
    """FLUSH, WAIT, CHECKPOINT: views are fresh, and what is committed is kept"""
    words = Words(statement)
    words.take("a word")
    words.end()


def reset(sql: Statements, statement: statement_reader.Statement) -> None:
    """RESET name: settings that hold anyway, or change no answer"""
    name = named(statement)
    if name == "timezone":
        sql.core.zone = "UTC"
    elif name in ("plan", "ask", "search_path") or not (name in HOLDS or is_tuning(name)):
        what = f"there is no RESET {name}"
        raise statement.source().error_at(statement.tokens[0].start, "E_UNSUPPORTED", what, f"SET {name} = default")


EXTENSIONS = ("pgcrypto", "uuid-ossp", "plpgsql")


def holds(node: exp.Set, source: Source) -> bool:
    """Whether a SET requests what is already the case."""
    equal = node.expressions[0].this if len(node.expressions) == 1 else None
    if not isinstance(equal, exp.EQ) or equal.this.name.lower() not in HOLDS:
        return False
    consumed_parts.understood(node)
    name, value = equal.this.name.lower(), equal.expression.copy().sql("postgres").strip("'").lower()
    if value not in HOLDS[name]:
        hint = f"it is {HOLDS[name][0]}" if HOLDS[name][0] else "leave it out"
        raise source.refuse(node, f"{name} cannot be {value}", hint)
    return True


def refresh(sql: Statements, statement: statement_reader.Statement) -> None:
    """REFRESH MATERIALIZED VIEW [CONCURRENTLY] v"""
    found = _REFRESH.fullmatch(statement.text.strip())
    source = statement.source()
    if found is None:
        words = Words(statement_reader.respoken(statement))
        words.need("MATERIALIZED", "VIEW")
        raise source.error_at(statement.tokens[0].start, "E_SYNTAX", "REFRESH MATERIALIZED VIEW is followed by a name")
    _check_there(sql, found.group(1), sql.session.views, source)


def tidy(sql: Statements, statement: statement_reader.Statement) -> None:
    """VACUUM [FULL] [ANALYZE] [t, ...], ANALYZE [t, ...]"""
    names = _TIDY.sub("", statement.text.strip())
    for name in names.split(",") if names else ():
        _check_there(sql, name.strip(), (*sql.session.tables, *sql.session.views), statement.source())


_REFRESH = re.compile(r"REFRESH\s+MATERIALIZED\s+VIEW\s+(?:CONCURRENTLY\s+)?(\S+)", re.IGNORECASE)
_TIDY = re.compile(r"^(?:(?:VACUUM|FULL|VERBOSE|ANALYZE)\b\s*)+", re.IGNORECASE)


def _check_there(sql: Statements, name: str, known: Collection[str], source: Source) -> None:
    """Refuse an unknown name, with its position."""
    exact = sql.spelled(name.replace('"', ""))
    if exact not in known:
        at = max(source.text.find(name), 0)
        raise source.error_at(at, "E_TABLE", f"there is no {name}", did_you_mean(name, known))


def extension(sql: Statements, statement: statement_reader.Statement) -> None:
    """CREATE EXTENSION [IF NOT EXISTS] name"""
    words = Words(statement)
    words.need("CREATE")
    words.need("EXTENSION")
    words.next_is("IF", "NOT", "EXISTS")
    name = words.take("an extension")
    if name.lower() not in EXTENSIONS:
        words.at -= 1
        raise words.error(
            f"there is no extension {name}", "functions are built in, or made by CREATE FUNCTION", "E_NAME"
        )
    if words.next_is("WITH", "SCHEMA") or words.next_is("SCHEMA"):
        words.name("a schema")
    words.end()
