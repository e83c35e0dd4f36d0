"""SQLAlchemy: the dialect's first questions, the ORM, and reflection."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.server.pg.conftest import Running

sa = pytest.importorskip("sqlalchemy")
orm = pytest.importorskip("sqlalchemy.orm")
pytest.importorskip("psycopg")


@pytest.fixture
def engine(fresh: Running) -> Iterator[Any]:
    made = sa.create_engine(fresh.dsn.replace("postgresql://", "postgresql+psycopg://"), poolclass=sa.pool.NullPool)
    yield made
    made.dispose()


def test_statements(engine: Any) -> None:
    with engine.begin() as db:
        db.execute(
            sa.text("INSERT INTO sale (id, shop, day) VALUES (:i, :s, :d)"),
            {"i": 5, "s": "x", "d": dt.date(2026, 1, 1)},
        )
    with engine.connect() as db:
        found = db.execute(sa.text("SELECT id, day FROM sale WHERE id = :i"), {"i": 5}).one()
    assert tuple(found) == (5, dt.date(2026, 1, 1))


def test_reflection(engine: Any) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["ev", "information_schema", "public"]
    assert inspector.get_table_names() == ["sale"]
    assert inspector.get_view_names() == ["total"]
    assert inspector.get_materialized_view_names() == []
    columns = {c["name"]: (str(c["type"]), c["nullable"]) for c in inspector.get_columns("sale")}
    assert columns == {
        "id": ("INTEGER", False), "shop": ("TEXT", False), "amount": ("NUMERIC(10, 2)", True), "day": ("DATE", True),
        "at": ("TIMESTAMP", True), "ok": ("BOOLEAN", True), "w": ("DOUBLE PRECISION", True),
    }  # fmt: skip
    key = inspector.get_pk_constraint("sale")
    assert (key["name"], key["constrained_columns"]) == ("sale_pkey", ["id"])
    assert inspector.get_foreign_keys("sale") == []
    assert inspector.get_indexes("sale") == []
    assert inspector.get_unique_constraints("sale") == []
    assert inspector.get_check_constraints("sale") == []
    assert inspector.get_table_comment("sale") == {"text": None}
    assert inspector.has_table("sale") and not inspector.has_table("nowhere")
    table = sa.Table("sale", sa.MetaData(), autoload_with=engine)
    assert [c.name for c in table.primary_key] == ["id"]


def test_constraints_and_defaults_are_reflected(engine: Any, fresh: Running) -> None:
    def make(db: Any) -> None:
        db.sql("CREATE SCHEMA s; CREATE TABLE s.town (a int, b int, PRIMARY KEY (a, b), name text UNIQUE)")
        db.sql("CREATE TABLE person (id int DEFAULT 7 CHECK (id > 0), a int, b int, double int AS (id * 2) STORED)")
        db.sql("ALTER TABLE person ADD CONSTRAINT lives FOREIGN KEY (a, b) REFERENCES s.town ON DELETE CASCADE")

    fresh.do(make)
    inspector = sa.inspect(engine)
    (key,) = inspector.get_foreign_keys("person")
    assert (key["name"], key["constrained_columns"], key["referred_columns"]) == ("lives", ["a", "b"], ["a", "b"])
    assert (key["referred_schema"], key["referred_table"], key["options"]) == ("s", "town", {"ondelete": "CASCADE"})
    (unique,) = inspector.get_unique_constraints("town", schema="s")
    assert (unique["name"], unique["column_names"]) == ("town_name_key", ["name"])
    assert unique["dialect_options"]["postgresql_nulls_not_distinct"] is False
    assert [c["sqltext"] for c in inspector.get_check_constraints("person")] == ["id > 0"]
    assert inspector.get_indexes("person") == []  # a foreign key's look-ups are not somebody's index
    columns = {c["name"]: c for c in inspector.get_columns("person")}
    assert columns["id"]["default"] == "7" and "computed" in columns["double"]
    reflected = sa.MetaData()
    reflected.reflect(engine)
    assert {fk.target_fullname for fk in reflected.tables["person"].foreign_keys} == {"s.town.a", "s.town.b"}


def test_indexes_and_comments_are_reflected(engine: Any, fresh: Running) -> None:
    fresh.do(lambda s: s.sql("CREATE INDEX by_shop ON sale (shop, day); COMMENT ON TABLE sale IS 'what was sold'"))
    inspector = sa.inspect(engine)
    assert [(i["name"], i["column_names"], i["unique"]) for i in inspector.get_indexes("sale")] == [
        ("by_shop", ["shop", "day"], False)
    ]
    assert inspector.get_table_comment("sale") == {"text": "what was sold"}


def test_the_orm_makes_fills_and_reads_a_table(engine: Any) -> None:
    Base: Any = orm.declarative_base()

    class Person(Base):  # type: ignore[misc]
        __tablename__ = "person"
        id = sa.Column(sa.BigInteger, primary_key=True, autoincrement=False)
        name = sa.Column(sa.Text, nullable=False)
        money = sa.Column(sa.Numeric(10, 2))

    Base.metadata.create_all(engine)
    with orm.Session(engine) as db:
        db.add_all([Person(id=i, name=f"p{i}", money=Decimal(i) / 2) for i in range(5)])
        db.commit()
        found = db.get(Person, 3)
        assert found is not None and found.money == Decimal("1.50")
        found.name = "new"
        db.delete(db.get(Person, 4))
        db.commit()
        assert db.scalars(sa.select(Person.name).order_by(Person.id)).all() == ["p0", "p1", "p2", "new"]
    Base.metadata.drop_all(engine)
    assert not sa.inspect(engine).has_table("person")
