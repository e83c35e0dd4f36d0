"""psql, as people use it: `everview serve` in a process of its own, and psql in another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.server.pg.conftest import SETUP

PSQL = shutil.which("psql")
pytestmark = pytest.mark.skipif(PSQL is None, reason="psql is not installed (Debian: postgresql-client)")


class Served:
    """`everview serve`, and how psql reaches it."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "everview.cli", "serve", "--pg", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if line.strip() == "ready":
                break
        address = next(line for line in self.lines if "postgresql://" in line)
        self.port = int(address.split("127.0.0.1:")[1].split("/")[0])

    def psql(self, *commands: str, password: str = "", text: str | None = None) -> subprocess.CompletedProcess[str]:
        assert PSQL is not None
        given = [part for c in commands for part in ("-c", c)]
        where = ["-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(self.port), "-U", "everview", "-d", "everview"]
        environment = {**os.environ, "PGPASSWORD": password, "PGCONNECT_TIMEOUT": "30"}
        return subprocess.run(
            [PSQL, *where, *given], input=text, capture_output=True, text=True, timeout=120, env=environment
        )

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    made = Served("--token", "open sesame")
    yield made
    assert made.stop() == 0


def test_the_token_is_asked_for(served: Served) -> None:
    assert served.psql("SELECT 1", password="open sesame").stdout == "1\n"
    refused = served.psql("SELECT 1", password="wrong")
    assert refused.returncode == 2
    assert "password" in refused.stderr


def test_a_session_at_the_terminal(served: Served) -> None:
    found = served.psql(
        SETUP,
        "SELECT * FROM total ORDER BY shop",
        "SELECT nope FROM total",
        "\\d total",
        "\\dt",
        password="open sesame",
    )
    assert "north|5.50|1\nsouth|-0.25|1\n" in found.stdout
    assert "amount|numeric(18,2)|||" in found.stdout
    assert "public|sale|table|everview" in found.stdout
    assert "LINE 1: SELECT nope FROM total\n               ^" in found.stderr
    copied = served.psql(
        "\\copy sale (id, shop) FROM PSTDIN WITH (FORMAT csv)", "SELECT count(*) FROM sale",
        "\\copy (SELECT id, shop FROM sale ORDER BY id) TO STDOUT", password="open sesame",
        text="7,\"a,b\"\n8,c\n\\.\n",
    )  # fmt: skip
    assert copied.stdout == "COPY 2\n4\n1\tnorth\n2\tsouth\n7\ta,b\n8\tc\n"


def test_what_d_shows_of_keys_defaults_sequences_types_and_functions(served: Served) -> None:
    made = served.psql(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE SEQUENCE counted START 5 INCREMENT 2",
        "CREATE FUNCTION plus1(x int) RETURNS int LANGUAGE SQL AS 'SELECT x + 1'",
        "CREATE TABLE town (id int PRIMARY KEY, name text UNIQUE, since date DEFAULT '2020-01-01', CHECK (id > 0))",
        """CREATE TABLE person (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, m mood,
           town int REFERENCES town ON DELETE CASCADE, twice int GENERATED ALWAYS AS (town * 2) STORED)""",
        password="open sesame",
    )
    assert made.returncode == 0, made.stderr

    def shown(command: str) -> str:
        found = served.psql("\\t off", command, password="open sesame")
        assert found.stderr == ""
        return found.stdout.removeprefix("Tuples only is off.\n")

    town = shown("\\d town")
    assert "since|date|||'2020-01-01'" in town
    assert '"town_name_key" UNIQUE CONSTRAINT, btree (name)' in town
    assert '"town_id_check" CHECK ((id > 0))' in town
    key = 'CONSTRAINT "person_town_fkey" FOREIGN KEY (town) REFERENCES town(id) ON DELETE CASCADE'
    assert f'TABLE "person" {key}' in town
    person = shown("\\d person")
    assert "id|bigint||not null|generated always as identity" in person
    assert 'twice|integer|||generated always as ("town" * 2) stored' in person
    assert person.count("person_town_fkey") == 1 and "generated" not in person.split("Indexes:")[1]
    assert "counted|sequence" in shown("\\ds") and "bigint|5|1|9223372036854775807|2|no|1" in shown("\\d counted")
    assert "public|mood|mood|4|sad\nok" in shown("\\dT+")
    assert "public|plus1|int|x int|func" in shown("\\df")
    assert "SELECT x + 1" in shown("\\sf plus1")
    assert "Superuser" in shown("\\du")
    described = served.psql(text="SELECT id, name AS n FROM town \\gdesc\n", password="open sesame")
    assert described.stdout == "id|bigint\nn|text\n"


def test_a_script_with_a_transaction(served: Served) -> None:
    found = served.psql(
        text="CREATE TABLE t (x int);\nBEGIN;\nINSERT INTO t VALUES (1);\nSAVEPOINT a;\nINSERT INTO t VALUES ('x');\n"
        "ROLLBACK TO a;\nINSERT INTO t VALUES (2);\nCOMMIT;\nSELECT * FROM t ORDER BY x;\n",
        password="open sesame",
    )
    assert found.stdout.splitlines()[-2:] == ["1", "2"]
    assert "ERROR" in found.stderr
