"""pg8000: a driver written in Python, with habits of its own."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from tests.server.pg.conftest import Running

pg8000 = pytest.importorskip("pg8000.dbapi")


def connect(server: Running) -> Any:
    return pg8000.connect(user="everview", host="127.0.0.1", port=server.port, database="everview", timeout=60)


def test_rows_parameters_and_transactions(fresh: Running) -> None:
    db = connect(fresh)
    cursor = db.cursor()
    cursor.execute("SELECT id, shop, amount, day, ok, w FROM sale WHERE shop = %s", ("north",))
    assert [tuple(r) for r in cursor.fetchall()] == [(1, "north", Decimal("5.50"), dt.date(2026, 1, 31), True, 1.5)]
    cursor.execute("INSERT INTO sale (id, shop, amount) VALUES (%s, %s, %s)", (5, "west", Decimal("2.25")))
    assert cursor.rowcount == 1
    db.rollback()
    cursor.execute("SELECT count(*) FROM sale")
    assert tuple(cursor.fetchone()) == (2,)
    cursor.executemany("INSERT INTO sale (id, shop) VALUES (%s, %s)", [(6, "a"), (7, "b")])
    db.commit()
    with pytest.raises(pg8000.DatabaseError) as error:
        cursor.execute("SELECT nope FROM sale")
    assert error.value.args[0]["C"] == "42703"
    db.rollback()
    db.close()
    assert fresh.do(lambda s: len(s["sale"].rows())) == 4


def test_the_token_is_the_password() -> None:
    from tests.server.pg.conftest import running

    server = running(token="very secret")
    try:
        with pytest.raises(pg8000.DatabaseError) as error:
            pg8000.connect(user="me", host="127.0.0.1", port=server.port, password="wrong", timeout=60)
        assert error.value.args[0]["C"] == "28P01"
        db = pg8000.connect(user="me", host="127.0.0.1", port=server.port, password="very secret", timeout=60)
        cursor = db.cursor()
        cursor.execute("SELECT current_user")
        assert tuple(cursor.fetchone()) == ("me",)
        db.close()
    finally:
        server.stop()
