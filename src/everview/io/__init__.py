"""Sources and sinks: the inputs and outputs of pipelines.

    db.source("orders", ev.io.json("in/orders"), key="id")       # a directory that grows
    revenue.write_to(ev.io.parquet("out/revenue"))               # the view's changes, each exactly once
    db.run(until="caught_up")

| name | as a source | as a sink |
|---|---|---|
| `csv`, `json`, `parquet`, `arrow` | a file, a directory that grows, a pattern | files of changes, or of the contents |
| `rows` | any Python iterable | |
| `foreach` | | a function that is called with each time's changes |
| `webhook`, `command` | | a web address, a program: called with each time's changes |
| `jdbc`, `delta` | (a Spark DataFrame) | tables, through Spark's writers |
| `kafka` | (a Spark stream) | a topic of changes |

A Spark DataFrame, streaming or not, is passed to `db.source` directly. For positions, exactly-once delivery and dead
letters see `everview.io.source`, `everview.io.feed` and `everview.io.outlet`.

Further modules:

    source_inference, bulk_load    the source that a path, table or DataFrame means; loading one at once
    pipeline, program      the loop that runs sources and sinks; pipelines as files
    formats, blocks, text_values, listing, record_encoder  files: their contents, and how they map to a table
    events, inbox          change feeds; records delivered for a table by others
    file_sink, call_sinks  files, web addresses and programs that receive changes
    validation, options, progress, notebooks  arguments and display
    doors, placeholders    the imports of Spark, and placeholders for checks
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from everview.io import doors
from everview.io.call_sinks import Command, Webhook
from everview.io.files import Files
from everview.io.formats import Arrow, Csv, Json, Parquet
from everview.io.inbox import Inbox
from everview.io.options import known_options
from everview.io.outlet import Outlet
from everview.io.pipeline import Run
from everview.io.rows import Rows
from everview.io.sink import Foreach, Sink
from everview.io.source import Bad, Chunk, Source
from everview.io.validation import names_option, path_of
from everview.session.changes.batch import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Bad",
    "Chunk",
    "Files",
    "Outlet",
    "Run",
    "Sink",
    "Source",
    "arrow",
    "command",
    "csv",
    "delta",
    "foreach",
    "inbox",
    "jdbc",
    "json",
    "kafka",
    "parquet",
    "rows",
    "webhook",
]

Path = str | os.PathLike[str]
Order = Literal["modified", "name"]


@known_options
def csv(
    path: Path,
    *,
    delimiter: str | None = None,
    quote: str = '"',
    header: bool | Sequence[str] = True,
    null: str = "",
    tail: bool = False,
    order: Order = "modified",
) -> Files:
    """CSV files. By default the `delimiter` is inferred from the first line of each file: comma, semicolon, tab or `|`;
    any but a comma is reported on standard error. `header` says whether the first line has the names, or lists them. An
    unquoted field that equals `null` is NULL. With `tail=True`, files that are appended to are followed.

    >>> import everview as ev, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("id,name" + chr(10) + "1,pear" + chr(10))
    >>> db = ev.connect()
    >>> fruit = db.source("fruit", ev.io.csv(folder))
    >>> _ = db.run(until="caught_up")
    >>> fruit.rows()
    [(1, 'pear')]
    """
    return Files(path, Csv(delimiter, quote, header, null), tail=tail, order=order)


@known_options
def json(path: Path, *, tail: bool = False, order: Order = "modified") -> Files:
    """JSON files with one object per line.

    >>> import everview as ev, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.json").write_text('{"id": 1, "name": "pear"}' + chr(10))
    >>> db = ev.connect()
    >>> fruit = db.source("fruit", ev.io.json(folder))
    >>> _ = db.run(until="caught_up")
    >>> fruit.rows()
    [(1, 'pear')]
    """
    return Files(path, Json(), tail=tail, order=order)


@known_options
def parquet(path: Path, *, order: Order = "modified") -> Files:
    """Parquet files.

    >>> import everview as ev, pyarrow.parquet, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> outlet = db.view("v", t.distinct()).write_to(ev.io.parquet(folder))
    >>> t.insert([(1,)])
    >>> outlet.stop()
    >>> pyarrow.parquet.read_table(folder).to_pylist()
    [{'x': 1, '_time': 2, '_diff': 1}]
    """
    return Files(path, Parquet(), order=order)


@known_options
def arrow(path: Path, *, order: Order = "modified") -> Files:
    """Arrow IPC (Feather) files or streams.

    >>> import everview as ev, pyarrow as pa, pyarrow.feather, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> pa.feather.write_feather(pa.table({"x": [1, 2]}), f"{folder}/a.arrow")
    >>> db = ev.connect()
    >>> t = db.source("t", ev.io.arrow(folder))
    >>> _ = db.run(until="caught_up")
    >>> sorted(t.rows())
    [(1,), (2,)]
    """
    return Files(path, Arrow(), order=order)


def inbox(state: Path, table: str) -> Files:
    """Records that Spark queries wrote for a table with `format("everview")`: see `everview.spark.rows.datasource`.

    >>> import everview as ev, tempfile
    >>> state = tempfile.mkdtemp()
    >>> with ev.connect(state) as db:  # Spark: frame.write.format("everview").option("table", "t").save(state)
    ...     t = db.source("t", ev.io.inbox(state, "t"), schema={"x": int})
    ...     print(db.run(until="caught_up").rows)
    {'t': 0}
    """
    return Files(Inbox(path_of(state), table), Arrow(), order="name")


def rows(rows: Iterable[Any] | Callable[[], Iterable[Any]]) -> Rows:
    """Rows of a Python iterable, as tuples or dicts, or of a function that returns one; it must yield the same rows
    again after a restart.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.source("t", ev.io.rows([{"x": 1}, {"x": 2}]))
    >>> print(db.run(until="caught_up").rows, sorted(t.rows()))
    {'t': 2} [(1,), (2,)]
    """
    return Rows(rows)


def foreach(function: Callable[[Batch], Any], *, position: Callable[[], int | None] | None = None) -> Foreach:
    """A function that is called with each time's changes (`batch.time`, `batch.rows()`, `batch.to_arrow()`).

    `position` returns the last time whose changes the function has stored, or None. If the function stores `batch.time`
    along with what it writes, each change is written exactly once across restarts. Without it, every start begins with
    the current contents.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> outlet = db.view("v", t.distinct()).write_to(ev.io.foreach(print))
    >>> t.insert([(1,)])
    Batch(time=1, rows=[((1,), 1)])
    """
    return Foreach(function, position)


def webhook(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    retries: int = 3,
    timeout: float = 10.0,
    position: Path | None = None,
) -> Webhook:
    """A web address that receives each time's changes as JSON: `{"time": 7, "changes": [{..., "_time": 7, "_diff":
    1}]}` (with `mode="snapshot"` the rows). A call is retried `retries` times if the receiver is unavailable or
    overloaded. Delivery is at least once; `position` names a file for the last acknowledged time, from which a restart
    continues. The header `Idempotency-Key` is the same for the same changes.

    >>> outlet = alerts.write_to(ev.io.webhook("https://example.org/alerts"))  # doctest: +SKIP
    """
    return Webhook(url, headers or {}, retries, timeout, position)


def command(arguments: str | Sequence[str], *, timeout: float | None = None, position: Path | None = None) -> Command:
    """A program that is run for each time's changes: they are on its standard input, a JSON object per line with
    `_time` and `_diff`; the time is also in EVERVIEW_TIME. A nonzero exit code ends the run. `position` as for
    `webhook`. No shell is involved; in a pipeline file, it runs in the folder of the file.

    >>> import everview as ev, pathlib, sys, tempfile
    >>> log = pathlib.Path(tempfile.mkdtemp()) / "log"
    >>> copy = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> outlet = db.view("v", t.distinct()).write_to(ev.io.command([sys.executable, "-c", copy, str(log)]))
    >>> t.insert([(7,)])
    >>> log.read_text()
    '{"x": 7, "_time": 2, "_diff": 1}\\n'
    """
    return Command(arguments, timeout, position)


def jdbc(spark: SparkSession, url: str, table: str, **options: str) -> Sink:
    """A database table, written through Spark's JDBC writer; changes carry columns `_time` and `_diff`. Each time's
    changes are one database transaction, and the position is the table's largest `_time`.

    >>> outlet = view.write_to(ev.io.jdbc(spark, "jdbc:postgresql://host/shop", "revenue"))  # doctest: +SKIP
    """
    return doors.writer(spark, "jdbc", {"url": url, "dbtable": table, **options})


def delta(spark: SparkSession, path: str, **options: str) -> Sink:
    """A Delta table (requires its Spark package): each time's changes are one commit, which Delta itself
    deduplicates.

    >>> outlet = view.write_to(ev.io.delta(spark, "lake/revenue"))  # doctest: +SKIP
    """
    return doors.writer(spark, "delta", {"path": path, **options})


def kafka(spark: SparkSession, servers: str, topic: str, *, key: str | Sequence[str] = (), **options: str) -> Sink:
    """A Kafka topic (requires its Spark connector): each change is a JSON record with `_time` and `_diff`, keyed by the
    columns named by `key`. A partially written time is completed after a restart; see `everview.spark.rows.topics`.

    >>> outlet = view.write_to(ev.io.kafka(spark, "127.0.0.1:9092", "revenue", key="country"))  # doctest: +SKIP
    """
    return doors.topic(spark, servers, topic, names_option("key", key), options)
