"""WITH (...) of CREATE TABLE and CREATE VIEW: options of other systems.

They specify where a table's rows come from, their layout, or performance. None of that affects results, so they are
ignored, each with a notice. Options that would affect results or access are refused, and so are unknown ones.
"""

from __future__ import annotations

from sqlglot import exp

from everview.sql.text import consumed_parts
from everview.sql.text.error_positions import Source

CONNECTORS = ("connector", "connectors", "kafka_topic", "topic")
"""Options for the origin of rows: with one of these, the others describe how to read them."""

LAYOUT = (
    "appendonly", "append_only", "append-only", "materialized", "autovacuum_enabled", "fillfactor", "parallel_workers",
    "user_catalog_table", "source_rate_limit", "backfill_rate_limit", "dml_rate_limit", "streaming_parallelism",
    "background_ddl", "fastupdate", "buffering", "deduplicate_items", "pages_per_range", "format", "value_format",
    "key_format", "partitions", "replicas", "skip_unused_columns", "expected_size", "retain history", "emit_final",
)  # fmt: skip
"""Options for storage and layout."""

LAYOUT_PREFIXES = ("autovacuum_", "toast.", "log_", "toast_", "parquet.", "write.", "orc.")

MEANING = {
    "retention_seconds": "write TTL INTERVAL '1 hour' behind the columns",
    "check_option": "",
    "security_barrier": "",
    "security_invoker": "",
    "timestamp": "declare the column, and WATERMARK FOR it",
    "refresh": "views are always fresh",
    "changelog-mode": "",
}
"""Options that would affect results or visibility."""


def passed_over(items: list[exp.Expr], source: Source, what: str) -> list[exp.Expr]:
    """The properties left after those without effect are noted; others are refused."""
    options = [i for i in items if isinstance(i, exp.Property) and type(i) is exp.Property]
    names = {id(i): i.name.lower() for i in options}
    for item in options:
        if names[id(item)] in MEANING:
            said = f"{item.sql('postgres')} is not supported in {what}"
            raise source.refuse(item, f"{said}: it would change what there is to see", MEANING[names[id(item)]])
    reads = next((i for i in options if names[id(i)] in CONNECTORS), None)
    left: list[exp.Expr] = []
    ignored: list[str] = []
    # PostgreSQL's PARTITION BY refuses rows for which there is no partition; Flink's and Spark's PARTITIONED BY none
    layouts = any(t.text.upper().startswith("PARTITIONED") for t in source.tokens)
    for each in items:
        is_layout = isinstance(each, exp.FileFormatProperty) or (
            isinstance(each, exp.PartitionedByProperty) and layouts
        )
        if is_layout and what == "CREATE TABLE":
            ignored.append(each.sql("spark"))
            consumed_parts.understood(each)
        elif id(each) in names and (reads is not None or _is_layout(names[id(each)])):
            consumed_parts.understood(each)
            if reads is None:
                ignored.append(names[id(each)])
        else:
            left.append(each)
    if reads is not None:
        where = reads.args["value"].name if isinstance(reads.args.get("value"), exp.Literal) else names[id(reads)]
        hint = "insert them, or make the table a source: CREATE SOURCE t FROM 'path'"
        source.notes.notices.append(f"no rows are read by {names[id(reads)]} {where[:40]!r}: {hint}")
    if ignored:
        source.notes.notices.append(f"{', '.join(ignored)} of {what} is ignored: it says how rows are kept elsewhere")
    return left


def _is_layout(name: str) -> bool:
    return name in LAYOUT or name.startswith(LAYOUT_PREFIXES)
