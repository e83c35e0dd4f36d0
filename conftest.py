"""Tests of the documentation, and two ways to run a part of the suite.

Every ```python block of README.md and docs/ is run: the blocks of one page in order, in one namespace, as a reader who
types along would. A block with `>>>` prompts is a doctest, any other is plain code that must not raise.
"""

from __future__ import annotations

import doctest
import gc
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # started in the background of a shell that is not interactive: tests of Ctrl-C, and what they start, must hear it
    signal.signal(signal.SIGINT, signal.default_int_handler)

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Page(pytest.File):
    """A Markdown file with Python blocks."""

    def collect(self) -> Iterator[pytest.Item]:
        text = self.path.read_text()
        blocks = [(text.count("\n", 0, m.start(1)), m.group(1)) for m in _BLOCK.finditer(text)]
        if blocks:
            yield PageRun.from_parent(self, name="blocks", blocks=blocks)


class PageRun(pytest.Item):
    """One run of a page from top to bottom."""

    def __init__(self, *, blocks: list[tuple[int, str]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.blocks = blocks

    def runtest(self) -> None:
        names: dict[str, Any] = {"__name__": "__main__"}
        for line, code in self.blocks:
            if ">>> " in code:
                self._run_doctest(code, names, line)
            else:
                exec(compile("\n" * line + code, str(self.path), "exec"), names)

    def _run_doctest(self, code: str, names: dict[str, Any], line: int) -> None:
        test = doctest.DocTestParser().get_doctest(code, {}, self.path.name, str(self.path), line)
        test.globs = names
        report: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=_FLAGS)
        runner.run(test, out=report.append, clear_globs=False)
        if runner.failures:
            pytest.fail("".join(report), pytrace=False)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"page {self.path.name}"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Any:
    """Collect README.md and the pages under docs/. Files without a prompt have no doctests: looking for some in every
    class of every test was a quarter of the time before the first test.
    """
    found = yield
    root = parent.config.rootpath
    if file_path.suffix == ".md" and (file_path == root / "README.md" or root / "docs" in file_path.parents):
        return [*found, Page.from_parent(parent, path=file_path)]
    if file_path.suffix == ".py" and ">>> " not in file_path.read_text():
        return [one for one in found if type(one).__name__ != "DoctestModule"]
    return found


def pytest_collection_finish() -> None:
    """Nothing of what was collected goes away before the end, so the garbage collector need not look at it again: one
    look at half a million objects took a third of a second, every few hundred tests.
    """
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--per-file N`: a quick sample that still touches every file."""
    parser.addoption("--per-file", type=int, default=0, help="run only N of the selected tests of each file")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply `--per-file` after markers have selected."""
    limit = config.getoption("--per-file")
    if not limit:
        return
    chosen = set(_sample(items, limit))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _sample(items: list[pytest.Item], limit: int) -> Iterator[pytest.Item]:
    """So many tests of each file, and as many different ones as there are: parameters come second."""
    files: dict[Path, list[tuple[int, int, pytest.Item]]] = {}
    seen: Counter[tuple[Path, str]] = Counter()
    for place, item in enumerate(items):
        test = (item.path, getattr(item, "originalname", item.name))
        files.setdefault(item.path, []).append((seen[test], place, item))
        seen[test] += 1
    for found in files.values():
        yield from (item for _, _, item in sorted(found, key=lambda one: one[:2])[:limit])
