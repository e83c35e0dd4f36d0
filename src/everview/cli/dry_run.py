"""Dry run of a pipeline file: its sources, views and sinks, created in memory and never run.

The files of its sources are read where that is needed to find their columns; nothing is written, no state is opened,
and Spark is not started. What only Spark knows (the columns of a Kafka topic, say) must be given by `schema`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from everview.errors import InputError
from everview.io import program
from everview.io.pipeline import Pipeline, pipeline_of
from everview.language.relation import relation_of
from everview.session.connecting import connect
from everview.session.core import core_of
from everview.sql.shell import script

if TYPE_CHECKING:
    from everview.session.session import Session


def described(path: Path) -> Iterator[str]:
    """The contents of a pipeline file, line by line."""
    with connect() as db:
        pipeline = pipeline_of(core_of(db))
        pipeline.planned = []
        if path.suffix == ".sql" and path.is_file():
            settings: dict[str, str] = {}
            script.run(db, path, show=lambda _: None, dry=True)
        else:
            found = program.load(path)
            settings = found.settings
            found.build(db, _no_spark)
        yield f"{path.name}: {_where(settings)}"
        yield from _listed("sources", _sources(pipeline))
        yield from _listed("tables", ((n, _columns(db, n)) for n in db.tables if n not in pipeline.feeds))
        yield from _listed("views", ((name, _columns(db, name)) for name in db.views))
        yield from _listed(
            "sinks", ((relation_of(v).label, f"to {s.describe()}, {mode}") for v, s, mode in pipeline.planned)
        )
        yield "nothing was written"


def _where(settings: dict[str, str]) -> str:
    master = settings.get("master") or program.MASTER
    place = "in this process" if master == program.EMBEDDED else f"on Spark, {master}"
    state = settings.get("state")
    return (
        f"{place}, state {f'in {state}' if state else 'kept while it runs'}, until {settings.get('until') or 'Ctrl-C'}"
    )


def _sources(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    for name, feed in pipeline.feeds.items():
        key = ", ".join(relation_of(feed.table).codec.names[c] for c in relation_of(feed.table).key)
        by = f" by {key}" if key else ""
        yield name, f"{feed.source.describe()}, {feed.rules.mode}{by}: {_columns(pipeline.session, name)}"


def _columns(db: Session, name: str) -> str:
    return ", ".join(f"{column} {declared!r}" for column, declared in db[name].schema().items())


def _listed(title: str, entries: Iterator[tuple[str, str]]) -> Iterator[str]:
    """A title and its entries, if there are any."""
    found = list(entries)
    if found:
        width = max(len(name) for name, _ in found)
        yield title
        yield from (f"  {name.ljust(width)}  {text}" for name, text in found)


def _no_spark() -> NoReturn:
    raise InputError(
        "E_SPARK",
        "this part of the pipeline needs Spark, which a check does not start",
        "what comes before it is as it should be; run it with --until 1s to try the rest",
    )
