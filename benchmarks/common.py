"""How every benchmark measures, so that their numbers can be compared.

- CPU seconds of the process (`time.process_time`) are the measure, wall times stand next to them: the machine is
  shared. `numpy.sort` of ten million int64 in the same run tells how fast the machine was.
- A tiny run of the same workload comes first, so that nothing measured includes a compiler or a first import (what
  those cost is `start.py`'s business).
- *load*: the views are installed, then all rows come in one transaction; ends when the views are complete. Tables that
  do not change afterwards are filled during *install*, so comparisons with the reference use the sum of the two.
- *single change*: one transaction that deletes one row and inserts one row, through the Python API, rows as tuples;
  1,000 of them after 100 that do not count.
- *batch*: 1,000 such changes in one transaction, rows as NumPy columns; 20 of them.
- *memory*: peak resident memory from before the load until after the last batch; less what the process with Everview
  imported and warm has (`bare_mb`), it is `net_mb`; less the benchmark's own rows (`inputs_mb`) too, `engine_mb`.
- Afterwards the maintained answer is compared with one computed from scratch by other software, and only then do
  peers run.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
if find_spec("everview") is None:  # a checkout that is not installed
    sys.path.insert(0, str(ROOT / "src"))

import graphs  # noqa: E402
import reference  # noqa: E402

import everview as ev  # noqa: E402

Ints = NDArray[np.int64]
Recompute = Callable[[], Any]


# ------------------------------------------------------------------------------------------- machine


def memory_mb(what: str = "VmRSS") -> float:
    """Resident memory of this process now (VmRSS) or at its highest (VmHWM), in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    return float("nan")


def forget_peak() -> bool:
    """Start the peak (VmHWM) anew; False where the system does not let us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def calibration(rows: int = 10_000_000) -> dict[str, float]:
    """CPU seconds of numpy.sort: the best of three, so that results of different hours can be compared."""
    rng = np.random.default_rng(1)
    seconds = []
    for _ in range(3):
        data = rng.integers(0, 1 << 62, size=rows)
        start = time.process_time()
        data.sort()
        seconds.append(time.process_time() - start)
    return {"rows": rows, "numpy_sort_cpu_s": min(seconds)}


def timer_us() -> float:
    """What measuring adds to every single change: the median CPU microseconds that nothing takes."""
    clock = Clock()
    for _ in range(1000):
        cpu = time.process_time()
        clock.cpu.append(time.process_time() - cpu)
    return float(np.median(clock.cpu)) * 1e6


def machine(quick: bool) -> dict[str, Any]:
    """Where, when and of what the numbers were taken."""
    return {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "load_average": [round(x, 2) for x in os.getloadavg()],
        "package": str(Path(ev.__file__).parent),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
        "calibration": calibration(100_000 if quick else 10_000_000),
        "timer_us": timer_us(),
    }


def commit() -> str:
    """The checkout's commit, with a + if the package's sources differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", "src") else "")


# -------------------------------------------------------------------------------------------- timing


@dataclass
class Clock:
    """CPU and wall seconds of the measured pieces."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure one piece (a few microseconds of overhead: hot loops below call the timers themselves)."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)

    def total(self) -> dict[str, float]:
        """Sums, for a piece measured once."""
        return {"cpu_s": sum(self.cpu), "wall_s": sum(self.wall)}

    def latencies(self) -> dict[str, float]:
        """Median, 99th percentile and highest, in milliseconds."""
        found: dict[str, float] = {}
        for name, seconds in (("cpu", self.cpu), ("wall", self.wall)):
            ms = np.array(seconds) * 1e3
            found[f"{name}_ms_median"] = float(np.median(ms))
            found[f"{name}_ms_mean"] = float(np.mean(ms))
            found[f"{name}_ms_p99"] = float(np.percentile(ms, 99))
            found[f"{name}_ms_max"] = float(np.max(ms))
        return found


def once(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds of one call, and its result."""
    clock = Clock()
    with clock.measured():
        result = work()
    return clock.total(), result


def columns(names: Sequence[str], rows: Ints) -> dict[str, Ints]:
    """A matrix of rows as named, contiguous columns."""
    return {name: np.ascontiguousarray(rows[:, i]) for i, name in enumerate(names)}


def single_changes(db: Any, table: Any, stream: graphs.Stream, start: int, warm_up: int, count: int) -> Clock:
    """Changes `start` and on, one transaction each."""
    clock = Clock()
    last = start + warm_up + count
    olds = [tuple(row) for row in stream.old[start:last].tolist()]
    news = [tuple(row) for row in stream.new[start:last].tolist()]
    now, used = time.perf_counter, time.process_time
    for i, (old, new) in enumerate(zip(olds, news, strict=True)):
        wall, cpu = now(), used()
        with db.transaction():
            table.delete([old])
            table.insert([new])
        cpu_end, wall_end = used(), now()
        if i >= warm_up:
            clock.cpu.append(cpu_end - cpu)
            clock.wall.append(wall_end - wall)
    return clock


def batches(
    db: Any, table: Any, names: Sequence[str], stream: graphs.Stream, start: int, size: int, count: int
) -> Clock:
    """Changes `start` and on, `size` in a transaction, `count` times."""
    clock = Clock()
    for first in range(start, start + size * count, size):
        gone, come = (columns(names, rows[first : first + size]) for rows in (stream.old, stream.new))
        with clock.measured(), db.transaction():
            table.insert(come)  # first: a change may replace what another of this batch brought
            table.delete(gone)
    return clock


# --------------------------------------------------------------------------------------- the protocol


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    warm_up: int = 100
    singles: int = 1000
    batch: int = 1000
    batches: int = 20

    @property
    def changes(self) -> int:
        """Changes that have happened at the end."""
        return self.warm_up + self.singles + self.batch * self.batches


QUICK = Sizes(warm_up=2, singles=10, batch=50, batches=2)
FEW = Sizes(warm_up=2, singles=20, batch=1000, batches=1)


@dataclass(frozen=True)
class Workload:
    """A benchmark: what to install over the table that changes, and how to check and to recompute it.

    `build(db)` declares tables, fills those that never change, installs views, and gives the changing table and a
    function that gives the maintained answer as sorted rows. `expected(rows)` is the same answer from scratch, given
    the table's rows. `peers(rows)` are other programs' ways to it; `spark(rows)` is stock Spark's, which says itself
    what it took, since it works in other processes.

    `rivals` are the crates and the names of this workload there (see `reference`); `statics` the tables that `build`
    fills, `k` a number that the workload needs, `theirs` the right answer of a rival where that is not `expected`.
    `settle(db)` is called once the rows are there, as part of loading them: it can choose a plan by them.
    """

    name: str
    graph: str
    columns: tuple[str, ...]
    rows: Ints
    stream: graphs.Stream
    build: Callable[[Any], tuple[Any, Callable[[], Ints]]]
    expected: Callable[[Ints], Ints]
    peers: Callable[[Ints], dict[str, Recompute]] = lambda rows: {}
    variant: str = ""
    spark: Callable[[Ints], tuple[dict[str, float], Ints]] | None = None
    rivals: tuple[tuple[str, str], ...] = ()
    statics: Mapping[str, Ints] = field(default_factory=dict)
    k: int = 0
    theirs: Callable[[Ints], Ints] | None = None
    settle: Callable[[Any], object] = lambda db: None


def arguments(description: str | None, *choices: tuple[str, Sequence[str]]) -> argparse.ArgumentParser:
    """The options all benchmarks have; `choices` are further options with their values, the first being the default."""
    parser = argparse.ArgumentParser(
        description=(description or "").partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    for name, values in choices:
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("--few", action="store_true", help="few changes: where each is a large part of everything")
    parser.add_argument("--history", type=int, default=None, help="epochs of history the session keeps")
    parser.add_argument("--no-peers", action="store_true", help="do not run other software")
    parser.add_argument("--spark", action="store_true", help="also stock Spark from scratch, if the graph is small")
    parser.add_argument(
        "--export", metavar="DIRECTORY", help="also write rows, changes and answer, for a rival to read"
    )
    parser.add_argument("--profile", action="store_true", help="where single changes spend time in Python, on stderr")
    parser.add_argument("--perf-map", action="store_true", help="name compiled operators for `perf record` of this run")
    return parser


def connect(options: argparse.Namespace, **settings: Any) -> Any:
    """A session as the options want it."""
    if options.history is not None:
        settings["history"] = options.history
    return ev.connect(**({"threads": 1} | settings))  # CPU seconds are compared


def run(make: Callable[[graphs.Graph], Workload], options: argparse.Namespace) -> None:
    """Measure a workload on the graph the options name and print the report."""
    name = "tiny" if options.quick else options.graph
    _warm_up(make(graphs.load("tiny")), options)
    bare = memory_mb()
    report(measure(make(graphs.load(name)), options, bare), options)


def run_prepared(load: Callable[[bool], Workload], options: argparse.Namespace) -> None:
    """The same for a workload that makes its own rows: `load(quick)`."""
    _warm_up(load(True), options)
    bare = memory_mb()
    report(measure(load(options.quick), options, bare), options)


def write_perf_map() -> None:
    """Tell `perf report` where compiled kernels are: /tmp/perf-<pid>.map, a symbol reaching up to the next one."""
    from everview.kernels.build.libraries import library

    places = sorted((address, name) for name, address in library().addresses().items())
    ends = [address for address, _ in places[1:]] + [places[-1][0] + 65536]
    lines = [f"{a:x} {min(end - a, 65536):x} {name}\n" for (a, name), end in zip(places, ends, strict=True)]
    Path(f"/tmp/perf-{os.getpid()}.map").write_text("".join(lines))


def _warm_up(workload: Workload, options: argparse.Namespace) -> None:
    if options.perf_map:
        write_perf_map()
    with connect(options) as db:
        table, answer = workload.build(db)
        table.insert(columns(workload.columns, workload.rows))
        workload.settle(db)
        single_changes(db, table, workload.stream, 0, 0, 5)
        batches(db, table, workload.columns, workload.stream, 5, 10, 2)
        answer()
    gc.collect()


def _load(db: Any, table: Any, workload: Workload, rows: Any) -> None:
    table.insert(rows)
    workload.settle(db)


def measure(workload: Workload, options: argparse.Namespace, bare: float) -> dict[str, Any]:
    """The whole protocol; see the module's docstring."""
    sizes = QUICK if options.quick else FEW if options.few else Sizes()
    rows, stream = workload.rows, workload.stream
    found: dict[str, Any] = {"benchmark": workload.name, "graph": workload.graph, "variant": workload.variant}
    given = columns(workload.columns, rows)
    peak_is_ours = forget_peak()
    inputs = memory_mb()
    with connect(options) as db:
        found["install"], (table, answer) = once(lambda: workload.build(db))
        found["load"], _ = once(partial(_load, db, table, workload, given))
        found["load"] |= {"rows": len(rows), "rows_per_cpu_s": len(rows) / found["load"]["cpu_s"]}
        del given
        loaded = memory_mb("VmHWM")
        with _profiled(options.profile):
            clock = single_changes(db, table, stream, 0, sizes.warm_up, sizes.singles)
        found["single"] = {"changes": sizes.singles, **clock.latencies()}
        clock = batches(db, table, workload.columns, stream, sizes.warm_up + sizes.singles, sizes.batch, sizes.batches)
        found["batch"] = _throughput(clock, sizes)
        found["memory"] = {
            "bare_mb": bare,
            "inputs_mb": inputs - bare,
            "peak_after_load_mb": loaded,
            "peak_mb": (peak := memory_mb("VmHWM")),
            "net_mb": peak - bare,
            "engine_mb": peak - inputs,
            "peak_includes_warm_up": not peak_is_ours,
        }
        found["stats"] = db.stats()
        maintained = answer()
    now = stream.after(rows, sizes.changes)
    expected = workload.expected(now)
    found["check"] = compare(maintained, expected)
    if options.export:
        reference.export(workload, sizes, (workload.theirs or workload.expected)(now), Path(options.export))
    found["peers"] = {} if options.no_peers else _peers(workload, now, found["single"]["cpu_ms_median"])
    if options.spark and workload.spark and len(now) <= MOST_FOR_SPARK:
        found["peers"]["spark"] = _on_spark(partial(workload.spark, now), expected)
    return found


MOST_FOR_SPARK = 500_000
"""Rows: it takes up to some minutes for those."""
MINUTE = 60.0


def _on_spark(recompute: Callable[[], tuple[dict[str, float], Ints]], expected: Ints) -> dict[str, float]:
    """Stock Spark's seconds: of a second run, which has a warm JVM, where the first was not long enough for that."""
    seconds, rows = recompute()
    if seconds["cpu_s"] < MINUTE:
        seconds, rows = recompute()
    compare(rows, expected)
    return seconds


def _throughput(clock: Clock, sizes: Sizes) -> dict[str, Any]:
    changes = sizes.batch * sizes.batches
    return {
        "batches": sizes.batches,
        "changes_per_batch": sizes.batch,
        "changes_per_cpu_s": changes / sum(clock.cpu),
        "changes_per_s": changes / sum(clock.wall),
        **clock.latencies(),
    }


def compare(maintained: Ints, expected: Ints) -> dict[str, Any]:
    """Stop with an error if the maintained answer is wrong: no number of a wrong program counts."""
    if not np.array_equal(maintained, expected):
        raise SystemExit(
            f"the maintained answer is wrong: {len(maintained)} rows, expected {len(expected)}; "
            f"first rows {maintained[:3].tolist()} and {expected[:3].tolist()}"
        )
    return {"equals_recompute": True, "rows": len(maintained)}


LONG = 5.0
"""CPU seconds after which imports do not matter and a peer need not run twice."""


def _peers(workload: Workload, rows: Ints, single_ms: float) -> dict[str, Any]:
    """What computing everything again costs elsewhere, and how many times a single change is cheaper."""
    found: dict[str, Any] = {}
    for name, recompute in workload.peers(rows).items():
        try:
            runs = [once(recompute)[0]]
            if runs[0]["cpu_s"] < LONG:  # the first pays for imports
                runs.append(once(recompute)[0])
        except Exception as error:  # a peer that is missing or broken is a fact about the peer
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:200]}
            continue
        seconds = min(runs, key=lambda run: run["cpu_s"])
        found[name] = {**seconds, "cpu_of_one_change_times": seconds["cpu_s"] * 1e3 / single_ms}
    return found


@contextlib.contextmanager
def _profiled(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    import cProfile
    import pstats

    profile = cProfile.Profile()
    with profile:
        yield
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(25)


def report(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Print one JSON object."""
    found["quick"] = options.quick
    found["machine"] = machine(options.quick)
    print(json.dumps(_rounded(found), indent=1, default=str))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def sorted_rows(view: Any) -> Ints:
    """A view of int columns as a sorted matrix."""
    table = view.to_arrow()
    matrix = np.stack([c.to_numpy() for c in table.columns], axis=1).astype(np.int64)
    return matrix[np.lexsort(matrix.T[::-1])]
