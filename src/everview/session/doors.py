"""The imports from a session to what is built on sessions: languages, pipelines, directories, Spark.

These are the only imports against the layering in docs/contributing.md. They happen on first use, so a program loads
only what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from everview.errors import InputError, did_you_mean
from everview.language.relation import relation_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from everview.client.session import ClientSession
    from everview.datalog import Rules
    from everview.io.outlet import Outlet
    from everview.io.pipeline import Pipeline
    from everview.language.collection import Collection
    from everview.plan.multiway import Choice
    from everview.plan.nodes import Node
    from everview.recovery.verification import Difference
    from everview.session.core import Core
    from everview.session.session import Session
    from everview.session.table import Table
    from everview.session.view import View
    from everview.sql.answers.prepared import Prepared
    from everview.system.observer import System
    from everview.why.absence import WhyNot
    from everview.why.derivation import Derivation, Witnesses
    from everview.why.expression import Expression
    from everview.why.probability import Probability


def why(view: View, row: Any, number: int | None, time: int | None) -> Derivation | Witnesses:
    from everview.why.explanation import why

    found = why(view, row, number, time)
    if view._core.access.acting() is not None:
        from everview.sql.rights.row_checks import check_shown

        check_shown(view._core, [found] if number is None else found)  # type: ignore[arg-type]
    return found


def why_not(view: View, row: Any, time: int | None) -> WhyNot:
    from everview.why.explanation import why_not

    _all_shown(view)
    return why_not(view, row, time)


def trust(view: View, row: Any, without: Any) -> bool:
    from everview.why.worlds import trust

    _all_shown(view)
    return trust(view, row, without)


def probability(view: View, row: Any, chances: Any, nodes: int) -> Probability:
    from everview.why.worlds import probability

    _all_shown(view)
    return probability(view, row, chances, nodes)


def provenance(view: View, row: Any) -> Expression:
    from everview.why.readable_expressions import provenance

    _all_shown(view)
    return provenance(view, row)


def provenances(view: View) -> Iterator[tuple[tuple[Any, ...], Expression]]:
    from everview.why.readable_expressions import provenances

    _all_shown(view)
    return provenances(view)


def _all_shown(view: View) -> None:
    """Refuse an operation that could reveal any row of a table, unless the current user can see all rows."""
    if view._core.access.acting() is not None:
        from everview.sql.rights.row_checks import check_all_shown

        check_all_shown(view._core, relation_of(view).node)


# missing values


def complete(core: Core, table: Table, rows: list[Any]) -> list[Any]:
    from everview.sql import statements_of
    from everview.sql.dml import omitted_columns

    return omitted_columns.completed_dicts(statements_of(core.session), table, rows)


def default_value(core: Core, table: Table, column: str) -> Any:
    from everview.sql import statements_of
    from everview.sql.dml import omitted_columns

    return omitted_columns.value(statements_of(core.session), table, column)


# the session's own events


def system(core: Core) -> System:
    from everview.sql import statements_of
    from everview.system.observer import System

    found = core.attached.get("system")
    if found is None:
        found = core.attached["system"] = System(core, statements_of(core.session))
    return cast("System", found)


# the optimiser


def best_plan(core: Core, collection: Collection) -> Collection:
    from everview.optimiser.best_plans import best_plan

    return best_plan(core, collection)


def alternatives(core: Core, collection: Collection) -> list[str]:
    from everview.optimiser.alternatives import alternatives

    return alternatives(core, collection)


def alternatives_of_view(core: Core, view: View) -> list[str]:
    from everview.optimiser.alternatives import alternatives_of_view

    return alternatives_of_view(core, view)


def replan(core: Core, view: View, wanted: str) -> int:
    from everview.optimiser.replanning import replan

    return replan(core, view, wanted)


def adapt(core: Core, on: bool, options: Mapping[str, Any]) -> None:
    from everview.optimiser.adaptive import adapt

    adapt(core, on, options)


# languages


def sql(session: Session, text: str) -> Any:
    from everview.sql import execute

    return execute(session, text)


def prepare(session: Session, name: str, text: str, keep: int) -> Prepared:
    from everview.sql.answers.prepared import Prepared

    return Prepared(session, name, text, keep)


def datalog(session: Session, text: str, plan: Choice | None) -> Rules:
    from everview.datalog import datalog

    return datalog(session, text, plan)


def register(session: Session, text: str, plan: Choice | None) -> Rules:
    from everview.datalog import Rules

    return Rules(session, text, plan)


def attribute(session: Session, name: str, value: Any, entity: Any, semantics: str, sources: bool) -> Table | View:
    from everview.datalog import attributes

    return attributes.attribute(session, name, value, entity, semantics, sources)


def transact(session: Session, changes: Iterable[Any], source: str | None) -> None:
    from everview.datalog import attributes

    attributes.transact(session, changes, source)


def retract_source(session: Session, source: str) -> None:
    from everview.datalog import attributes

    attributes.retract_source(session, source)


# pipelines


def pipeline(core: Core) -> Pipeline:
    from everview.io.pipeline import pipeline_of

    return pipeline_of(core)


def table_of(core: Core, name: str, data: Any, key: Any, ttl: Any) -> Table:
    from everview.io.bulk_load import table_of

    return table_of(core, name, data, key, ttl)


def read(core: Core, source: Any, name: str | None, key: Any, schema: Any) -> Table:
    from everview.io.bulk_load import read

    return read(core, source, name, key, schema)


def outlet(view: View, core: Core, sink: Any, mode: Any, every: Any) -> Outlet:
    from everview.io.outlet import as_sink

    made: Outlet = pipeline(core).outlet(view, as_sink(sink), mode, every)
    return made


# other runtimes


def open_directory(location: str | os.PathLike[str], **options: Any) -> Session:
    from everview.recovery.opening import open_directory

    return open_directory(location, **options)


def open_on_spark(spark: Any, **options: Any) -> Session:
    from everview.spark.connection import open_on_spark

    return open_on_spark(spark, **options)


def open_client(address: str, **options: Any) -> ClientSession:
    from everview.client.session import connect

    known = ("token", "user", "password", "timeout", "certificate")
    if unknown := [name for name in options if name not in known]:
        raise InputError("E_OPTION", f"a client has no option {unknown[0]!r}", did_you_mean(unknown[0], known))
    return connect(address, **options)


def check(core: Core) -> list[Difference]:
    from everview.recovery.verification import differences
    from everview.why import provenance_check

    return differences(core, provenance_check.differences)


def to_spark(view: View, core: Core, spark: SparkSession | None, changes: bool) -> DataFrame:
    from everview.spark.rows.frames import check_session, to_frame
    from everview.spark.rows.views import default_session, stream_of_changes

    spark = default_session(core) if spark is None else spark
    check_session(spark)
    return stream_of_changes(spark, core, relation_of(view).label) if changes else to_frame(spark, view.to_arrow())


def shown_rows(core: Core, name: str) -> Node:
    """The plan of a table or view as seen by the current user, if that is not the program itself."""
    from everview.sql.rights.visible_relations import shown_rows

    return shown_rows(core, name)


def check_rows(core: Core, table: Table, rows: Any, diff: int) -> None:
    """Refuse rows that policies do not allow the current user to insert or delete."""
    from everview.sql.rights.row_checks import check

    check(core, table, rows, diff)
