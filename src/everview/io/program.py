"""Pipelines as files, for `everview run`.

A Python file defines `pipeline(db)` or `pipeline(db, spark)`, which adds sources, views and sinks:

    def pipeline(db):
        db.source("orders", ev.io.json("in/orders"), key="id")
        revenue = db.sql("CREATE VIEW revenue AS SELECT country, sum(amount) AS total FROM orders GROUP BY country")
        revenue.write_to(ev.io.parquet("out/revenue"))

A TOML file is the equivalent without Python. Paths in either are relative to the file, wherever it is run from:

    [source.orders]
    format = "json"                    # csv, json, parquet, arrow, or a Spark stream: kafka, rate, ...
    path = "in/orders"
    key = "id"

    [view]
    revenue = "SELECT country, sum(amount) AS total FROM orders GROUP BY country"

    [sink.revenue]
    format = "parquet"
    path = "out/revenue"

Options of `db.source` and of the format are keys of the source's table, those of `view.write_to` keys of the sink's. A
sink may also be one of Spark's (`jdbc` with `url` and `table`, `delta` with `path`, `kafka` with `servers` and
`topic`), or `webhook` with a `url`, `command` with a `command`. A Spark stream may have a `spark_schema`, and `select`:
expressions for its columns. Further keys of the file: `state` (a directory), `master` (Spark's; default "local[2]",
"embedded" to run in this process), `shards` and `until`; the table `[spark]` has settings for Spark
(`"spark.jars.packages" = "..."`).
"""

from __future__ import annotations

import inspect
import re
import runpy
import shutil
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everview import io
from everview.errors import EverviewError, InputError, did_you_mean
from everview.io import doors
from everview.io.listing import paths_in
from everview.io.pipeline import pipeline_of
from everview.io.placeholders import PlaceholderSink, PlaceholderStream
from everview.session.connecting import connect as session_of
from everview.session.core import core_of
from everview.session.view import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from everview.session.session import Session

KINDS = (".sql", ".toml", ".py")
"""Suffixes of pipeline files."""
SETTINGS = ("state", "master", "shards", "until")
MASTER, EMBEDDED = "local[2]", "embedded"
"""The default master, and the one that means this process."""
FORMATS: dict[str, Callable[..., io.Files]] = {
    "csv": io.csv,
    "json": io.json,
    "parquet": io.parquet,
    "arrow": io.arrow,
}
CALLS: dict[str, tuple[Callable[..., io.Sink], str]] = {
    "webhook": (io.webhook, "url"),
    "command": (io.command, "command"),
}
"""Sinks that make calls, and their required options."""
SPARK_SINKS: dict[str, tuple[Callable[..., io.Sink], tuple[str, ...]]] = {
    "jdbc": (io.jdbc, ("url", "table")),
    "delta": (io.delta, ("path",)),
    "kafka": (io.kafka, ("servers", "topic")),
}
"""Sinks written by Spark, and their required options; other options are passed to Spark."""
FEED_OPTIONS = ("key", "mode", "schema", "bad", "missing", "change_column", "max_rows_per_step", "every")
SINK_OPTIONS = ("mode", "every")

GetSpark = Callable[[], "SparkSession"]


class Program:
    """A pipeline read from a file: its settings, and what it adds to a session."""

    def __init__(
        self, settings: Mapping[str, str], build: Callable[[Session, GetSpark], Any], conf: Mapping[str, Any] = {}
    ) -> None:
        self.settings = dict(settings)
        self.build = build
        self.conf = dict(conf)
        """Spark's settings"""


@contextmanager
def connect(
    settings: Mapping[str, str], conf: Mapping[str, Any] = {}, *, trust: bool = False
) -> Iterator[tuple[Session, GetSpark]]:
    """The session for the settings, on Spark (with its own settings) or embedded; and a way to access Spark for
    either.
    """
    master = settings.get("master") or _usual_master()
    made: list[SparkSession] = []
    logs = ExitStack()

    def spark() -> SparkSession:
        if not made:
            begun = time.monotonic()
            where = MASTER if master == EMBEDDED else master
            log = logs.enter_context(_log())
            made.append(doors.spark_on_this_machine(where, conf, log))
            without = "" if master == EMBEDDED else "; --embedded does without it"
            took = time.monotonic() - begun
            said = f"everview: runs on Spark, {where}, which took {took:.1f} s to start{without}"
            print(f"{said}; its log: {log}" if log.exists() else said, file=sys.stderr)
        return made[0]

    state, shards = settings.get("state"), _shards(settings)
    _refuse_together(master, settings, conf)
    with logs, _stopped(made):
        if master == EMBEDDED:
            options = {"trust": trust} if state else {}
            with _unmade(state) as seen, session_of(state, **options) as db, seen(db):
                yield db, spark
        else:
            with (
                _directory(state) as place,
                _unmade(place) as seen,
                session_of(spark(), state=place, shards=shards, trust=trust) as db,
                seen(db),
            ):
                yield db, spark


@contextmanager
def _stopped(made: list[SparkSession]) -> Iterator[None]:
    """Stop Spark after use."""
    try:
        yield
    finally:
        for started in made:
            started.stop()


@contextmanager
def _log() -> Iterator[Path]:
    """A file for Spark's output. If a run fails, it is kept and its path is printed."""
    log = Path(tempfile.mkdtemp(prefix="everview-spark-")) / "spark.log"
    wanted = False
    try:
        yield log
    except Exception as error:
        wanted = not isinstance(error, InputError) or error.code == "E_SPARK"
        raise
    finally:
        if wanted and log.exists() and log.stat().st_size:
            print(f"everview: what Spark said is in {log}", file=sys.stderr)
        else:
            shutil.rmtree(log.parent, ignore_errors=True)


@contextmanager
def _unmade(state: str | None) -> Iterator[Callable[[Session], AbstractContextManager[None]]]:
    """Remove a directory that a run created and that failed before any data was read or written: it only contains the
    faulty definitions, which would be in the way of the corrected pipeline. Returns a hook for the session opened in
    between.
    """
    path = None if not state or "://" in state else Path(state)
    fresh = path is not None and (not path.exists() or (path.is_dir() and not any(path.iterdir())))
    empty = False

    @contextmanager
    def seen(db: Session) -> Iterator[None]:
        nonlocal empty
        try:
            yield
        except BaseException:
            empty = _nothing_happened(db)
            raise

    try:
        yield seen
    except BaseException:
        if fresh and empty and path is not None:
            shutil.rmtree(path, ignore_errors=True)
        raise


def _nothing_happened(db: Session) -> bool:
    """Whether no row was read and no sink was opened."""
    core = core_of(db)
    taken = any(mark.startswith("source/") for mark in core.runtime.offsets)
    return not core.closed and not taken and not pipeline_of(core).outlets and not any(len(db[n]) for n in db.tables)


def _refuse_together(master: str, settings: Mapping[str, str], conf: Mapping[str, Any]) -> None:
    """Refuse contradictory settings."""
    if master != EMBEDDED:
        return
    if settings.get("shards") is not None:
        raise InputError("E_OPTION", "an embedded session has no shards", "leave shards out")
    if conf and find_spec("pyspark") is None:
        raise InputError(
            "E_OPTION", "settings for Spark are given, but PySpark is not installed", "pip install 'everview[spark]'"
        )


def _usual_master() -> str:
    """Spark on this machine, if PySpark is installed."""
    if find_spec("pyspark") is not None:
        return MASTER
    print("everview: PySpark is not installed (pip install 'everview[spark]'): running embedded", file=sys.stderr)
    return EMBEDDED


def _shards(settings: Mapping[str, str]) -> int | None:
    given = settings.get("shards")
    if given is None:
        return None
    if not given.isdecimal():
        raise InputError("E_OPTION", f"shards is {given!r}", "give a number from 1 to 4096")
    return int(given)


@contextmanager
def _directory(state: str | None) -> Iterator[str]:
    """The state directory; by default a temporary one that is removed when the pipeline ends."""
    if state:
        yield state
        return
    with tempfile.TemporaryDirectory(prefix="everview-") as made:
        yield made


def spark_settings(given: Iterable[str]) -> dict[str, str]:
    """Settings written as `name=value`.

    >>> spark_settings(["spark.executor.memory=2g"])
    {'spark.executor.memory': '2g'}
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError("E_OPTION", f"{text!r} is not a setting of Spark", "write --conf name=value")
        found[name] = value
    return found


def load(path: str | Path) -> Program:
    """Read a pipeline from a .py or .toml file."""
    path = Path(path)
    if not path.is_file():
        others = [p.name for p in path.parent.glob("*") if p.suffix in KINDS] if path.parent.is_dir() else []
        close = did_you_mean(path.name, others) if others else ""
        hint = close if close.startswith("did you mean") else "give a .sql, .toml or .py file"
        raise InputError("E_PIPELINE", f"there is no file {str(path)!r}", hint)
    if path.suffix == ".py":
        return _python(path)
    if path.suffix == ".toml":
        return _toml(path)
    raise not_a_pipeline(path)


def not_a_pipeline(path: Path) -> InputError:
    """Return the error for a file that is not a pipeline; for data files, with how to read them."""
    plain = path.name.removesuffix(".gz")
    if plain.endswith((".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather")):
        name = re.sub(r"\W+", "_", plain.split(".")[0]) or "t"
        return InputError(
            "E_PIPELINE",
            f"{path.name} is data, not a pipeline",
            f"write a pipeline that reads it, {name}.sql: CREATE SOURCE {name} FROM '{path.name}'; CREATE VIEW ...; "
            f"or look at it: everview sql -c \"CREATE SOURCE {name} FROM '{path}'; RUN UNTIL CAUGHT UP; FROM {name}\"",
        )
    return InputError("E_PIPELINE", f"{path.name} is not a pipeline", "give a .sql, .toml or .py file")


def _python(path: Path) -> Program:
    sys.path.insert(0, str(path.resolve().parent))  # so that modules beside the file are found
    with _told(path), paths_in(path.parent):
        function = runpy.run_path(str(path), run_name="everview_pipeline").get("pipeline")
    if not callable(function):
        raise InputError(
            "E_PIPELINE", f"{path.name} defines no function pipeline(db)", "put sources, views and sinks into one"
        )
    wants_spark = "spark" in inspect.signature(function).parameters

    def build(db: Session, spark: GetSpark) -> Any:
        with _told(path), paths_in(path.parent):
            return function(db, spark=spark()) if wants_spark else function(db)

    return Program({}, build)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Report exceptions of the user's own Python with the user's lines, without ours."""
    try:
        yield
    except EverviewError:
        raise
    except SyntaxError as error:
        raise InputError("E_PIPELINE", f"{path.name}, line {error.lineno}: {error.msg}", "correct the Python") from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        first = next((i for i, f in enumerate(frames) if Path(f.filename).name == path.name), 0)
        lines = "".join(traceback.format_list(frames[first:])).rstrip()
        raise InputError("E_PIPELINE", f"{path.name}: {type(error).__name__}: {error}\n{lines}", "") from None


def _toml(path: Path) -> Program:
    try:
        text = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InputError("E_PIPELINE", f"{path.name}: {error}", "correct the TOML") from None
    _known(text, (*SETTINGS, "spark", "source", "view", "sink"), path.name)
    if not text.get("source"):
        raise InputError("E_PIPELINE", f"{path.name} has no source", "add a table [source.name]")
    settings = {name: str(text[name]) for name in SETTINGS if name in text}
    if "state" in settings and "://" not in settings["state"]:
        settings["state"] = str(path.parent / settings["state"])

    def build(db: Session, spark: GetSpark) -> None:
        for name, options in text["source"].items():
            _add_source(db, spark, name, dict(options), path)
        for name, query in text.get("view", {}).items():
            db.sql(f'CREATE VIEW "{name}" AS {query}')
        for name, options in text.get("sink", {}).items():
            _add_sink(db, spark, name, dict(options), path)

    return Program(settings, build, text.get("spark", {}))


def _add_source(db: Session, spark: GetSpark, name: str, options: dict[str, Any], path: Path) -> None:
    place = f"{path.name}, [source.{name}]"
    feed = {option: options.pop(option) for option in FEED_OPTIONS if option in options}
    format = _needed(options, "format", place)
    if format in FORMATS:
        _known(options, ("path", *inspect.signature(FORMATS[format]).parameters), place)
        db.source(name, FORMATS[format](_path(options, path, place), **options), **feed)
        return
    if "path" in options:
        options["path"] = _path(options, path, place)
    db.source(name, PlaceholderStream(format, place) if _is_a_check(db) else _stream(spark(), format, options), **feed)


def _is_a_check(db: Session) -> bool:
    return pipeline_of(core_of(db)).planned is not None


def _stream(spark: SparkSession, format: str, options: dict[str, Any]) -> DataFrame:
    reader = spark.readStream.format(format)
    schema, select = options.pop("spark_schema", None), options.pop("select", None)
    stream = (reader.schema(schema) if schema else reader).options(**options).load()
    return stream if select is None else stream.selectExpr(*([select] if isinstance(select, str) else select))


def _add_sink(db: Session, spark: GetSpark, name: str, options: dict[str, Any], path: Path) -> None:
    place = f"{path.name}, [sink.{name}]"
    if name not in db.views:
        raise InputError("E_PIPELINE", f"{place}: no view is called {name!r}", did_you_mean(name, db.views))
    view = db[name]
    assert isinstance(view, View)
    how = {option: options.pop(option) for option in SINK_OPTIONS if option in options}
    format = _needed(options, "format", place)
    if format in CALLS:
        call, of = CALLS[format]
        target = _needed(options, of, place)
        _known(options, tuple(inspect.signature(call).parameters), place)
        with paths_in(path.parent):
            view.write_to(call(target, **options), **how)
        return
    if format in SPARK_SINKS:
        make, needed = SPARK_SINKS[format]
        told = [_path(options, path, place) if n == "path" else str(_needed(options, n, place)) for n in needed]
        view.write_to(PlaceholderSink(format, told[-1]) if _is_a_check(db) else make(spark(), *told, **options), **how)
        return
    if format not in FORMATS:
        known = (*FORMATS, *CALLS, *SPARK_SINKS)
        raise InputError("E_PIPELINE", f"{place}: format {format!r} is not known", did_you_mean(format, known))
    _known(options, ("path", *inspect.signature(FORMATS[format]).parameters), place)
    view.write_to(FORMATS[format](_path(options, path, place), **options), **how)


def _path(options: dict[str, Any], path: Path, place: str) -> str:
    given = str(_needed(options, "path", place))
    return given if "://" in given else str(path.parent / given)


def _needed(options: dict[str, Any], name: str, place: str) -> Any:
    if name not in options:
        raise InputError("E_PIPELINE", f"{place} has no {name}", f'add {name} = "..."')
    return options.pop(name)


def _known(options: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for name in options:
        if name not in known:
            raise InputError("E_PIPELINE", f"{place}: {name!r} is not known", did_you_mean(name, known))
