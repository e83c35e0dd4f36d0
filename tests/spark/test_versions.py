"""Workers that have another Everview than the driver, or none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

import everview as ev
from everview.spark.driver import versions
from tests.spark import clusters, inprocess

DRIVER = """
import sys
import everview as ev
from everview.spark import local_session

spark = local_session("local[2]", **{"spark.executorEnv.PYTHONPATH": sys.argv[1]})
for alone_rows in (None, 0):
    with ev.connect(spark, state=f"{sys.argv[2]}/{alone_rows}", shards=2, alone_rows=alone_rows) as db:
        t = db.table("t", {"x": int})
        try:
            t.insert([(1,), (2,), (3,)])
        except ev.StoreError as error:
            print(error, flush=True)
"""


def test_the_driver_names_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ev.connect(inprocess.session(), state=str(tmp_path), shards=2) as db:
        t = db.table("t", {"x": int})
        t.insert([(1,)])
        own = versions.own_version()
        with monkeypatch.context() as other:
            other.setattr(ev, "_identity", "0.0.9 (abcd)")
            with pytest.raises(ev.StoreError, match=r"E_VERSION.*has Everview 0\.0\.9 \(abcd\), the driver") as caught:
                t.insert([(2,)])
        assert own in caught.value.message
        t.insert([(3,)])
        assert sorted(t.rows()) == [(1,), (3,)]


@pytest.mark.parametrize("found", ["0.0.9", None], ids=["another", "none"])
def test_the_question_needs_nothing_of_the_workers(tmp_path: Path, found: str | None) -> None:
    """A task is unpickled and run by a Python that has only PySpark's cloudpickle, and perhaps another Everview."""
    if found is not None:
        (tmp_path / "everview").mkdir()
        (tmp_path / "everview" / "__init__.py").write_text(f"__version__ = {found!r}")
    (tmp_path / "task").write_bytes(cloudpickle.dumps(versions.guarded("alone", b"job", None)))
    program = "import pickle, sys; print(list(pickle.load(open(sys.argv[1], 'rb'))([]))[0].decode())"
    paths = [str(tmp_path), str(Path(cloudpickle.__file__).parents[1])]
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {paths!r}; {program}", str(tmp_path / "task")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env={}).stdout
    assert said.startswith("[another Everview: " + ("0.0.9 (" if found else "none (No module named 'everview'"))
    assert versions.other_in(RuntimeError(said)) is not None


def test_an_answer_is_no_version() -> None:
    assert versions.checked(b"an answer") == b"an answer"
    assert versions.other_in(RuntimeError("worker crashed")) is None


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark(tmp_path: Path) -> None:
    """In one task, and in a barrier stage, whose other tasks must not wait for an answer."""
    (tmp_path / "everview").mkdir()
    (tmp_path / "everview" / "__init__.py").write_text("__version__ = '0.0.9'")
    command = [sys.executable, "-c", DRIVER, str(tmp_path), str(tmp_path / "state")]
    env = os.environ | {"PYTHONPATH": str(clusters.ROOT / "src")}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=env, timeout=200).stdout
    assert said.count("[E_VERSION] a Spark worker") == 2 and said.count("has Everview 0.0.9 (") == 2
