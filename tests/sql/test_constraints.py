"""Constraints: CHECK, UNIQUE, FOREIGN KEY, defaults and generated columns, in every way that rows come in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql.test_alter import again  # noqa: F401  # a fixture
from tests.store.damages import copied

Again = Callable[[ev.Session | None], ev.Session]

SHOP = """
    CREATE TABLE customer (
        id serial PRIMARY KEY,
        email text NOT NULL UNIQUE,
        joined timestamptz NOT NULL DEFAULT now(),
        age int CHECK (age >= 18)
    );
    CREATE TABLE orders (
        id bigint GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 10) PRIMARY KEY,
        customer_id int NOT NULL REFERENCES customer ON DELETE CASCADE ON UPDATE CASCADE,
        quantity int NOT NULL DEFAULT 1,
        price numeric(10,2) NOT NULL,
        total numeric(12,2) GENERATED ALWAYS AS (quantity * price) STORED,
        CONSTRAINT sensible CHECK (quantity > 0 AND price >= 0)
    )
"""


def refused(db: ev.Session, code: str, constraint: str, what: Callable[[], object]) -> str:
    """What an error says that must be raised, and leave everything as it was."""
    before = {name: Counter(db[name].rows()) for name in db.tables}
    with pytest.raises(ev.ConstraintError) as error:
        what()
    assert (error.value.code, error.value.constraint) == (code, constraint)
    assert {name: Counter(db[name].rows()) for name in db.tables} == before
    return error.value.message


def _nothing_wrong_comes_in(db: ev.Session) -> None:
    customer, orders = db["customer"], db["orders"]
    text = refused(db, "E_UNIQUE", "customer_email_key", lambda: db.sql("INSERT INTO customer (email) VALUES ('a@x')"))
    assert text == "table 'customer': (email) = ('a@x') is there twice (constraint customer_email_key)"
    row = (7, "c@x", customer.rows()[0][2], 17)
    text = refused(db, "E_CHECK", "customer_age_check", lambda: customer.insert([row]))
    assert "breaks CHECK (age >= 18)" in text and "(age, id) = (17, 7)" in text
    refused(db, "E_CHECK", "sensible", lambda: db.sql("UPDATE orders SET quantity = 0 WHERE id = 100"))
    text = refused(db, "E_FOREIGN_KEY", "orders_customer_id_fkey", lambda: db.sql("UPDATE orders SET customer_id = 77"))
    assert "(customer_id) = (77) refers to no row of customer (id)" in text
    wrong = (9, 1, 2, 1, 3)
    refused(db, "E_CHECK", "orders_total_generated", lambda: orders.insert([wrong]))
    with pytest.raises(ev.EverviewError) as error:
        db.sql("INSERT INTO orders (id, customer_id, price) VALUES (1, 1, 1)")
    assert error.value.code == "E_GENERATED"
    with pytest.raises(ev.EverviewError) as error:
        db.sql("INSERT INTO customer (email) VALUES (NULL)")
    assert error.value.code == "E_NULL"


def test_a_first_table(again: Again) -> None:  # noqa: F811
    db = again(None)
    db.sql(SHOP)
    assert list(db.views) == []
    db.sql("INSERT INTO customer (email) VALUES ('a@x'), ('b@x')")
    db.sql("INSERT INTO orders (customer_id, price, quantity) VALUES (1, 2.50, 3), (2, 1.00, DEFAULT)")
    assert sorted(db.sql("SELECT id, customer_id, quantity, total FROM orders").rows()) == [
        (100, 1, 3, pytest.approx(7.5)),
        (110, 2, 1, pytest.approx(1)),
    ]
    for _ in range(2):
        db = again(db)
        _nothing_wrong_comes_in(db)
    db.sql("UPDATE customer SET id = 20 WHERE id = 2")
    assert sorted(db.sql("SELECT customer_id FROM orders").rows()) == [(1,), (20,)]
    db.sql("DELETE FROM customer WHERE id = 1")
    assert db.sql("SELECT customer_id FROM orders").rows() == [(20,)]
    db = again(db)
    db.sql("UPDATE orders SET quantity = 4")
    assert db.sql("SELECT quantity, total FROM orders").rows() == [(4, pytest.approx(4))]
    db.sql("UPDATE orders SET quantity = DEFAULT")
    assert db.sql("SELECT quantity, total FROM orders").rows() == [(1, pytest.approx(1))]
    taken = db.sql("INSERT INTO customer (email) VALUES ('n@x') RETURNING id").rows()
    assert taken[0][0] > 2  # numbers are not given twice
    assert db.check() == []


def test_python_rows_are_guarded_and_completed(again: Again) -> None:  # noqa: F811
    db = again(None)
    db.sql(SHOP)
    customer = db["customer"]
    customer.insert([{"email": "a@x"}, {"email": "b@x", "age": 30}])
    assert sorted((i, e, a) for i, e, _, a in customer.rows()) == [(1, "a@x", None), (2, "b@x", 30)]
    moment = customer.rows()[0][2]
    refused(db, "E_UNIQUE", "customer_email_key", lambda: customer.upsert([(3, "a@x", moment, None)]))
    many = [(i, f"{i}@x", moment, 20) for i in range(10, 400)]
    refused(db, "E_UNIQUE", "customer_email_key", lambda: customer.insert([*many, (9, "10@x", moment, None)]))
    customer.insert(many)
    with pytest.raises(ev.ConstraintError), db.transaction():
        customer.insert([(5, "five", moment, 50)])
        customer.insert([(6, "five", moment, 50)])
    with db.transaction():  # what counts is how it ends
        customer.insert([(5, "five", moment, 50)])
        customer.insert([(6, "five", moment, 50)])
        customer.delete(keys=[5])
    with pytest.raises(ev.ConstraintError), db.batch():
        customer.insert([(7, "seven", moment, 50)])
        customer.insert([(8, "seven", moment, 50)])
        customer.delete(keys=[7])
    assert len(customer) == 393
    db["orders"].insert([{"customer_id": 1, "price": 2}])
    customer.delete(keys=[1])
    assert db["orders"].rows() == []


def test_statements_of_a_transaction_are_looked_at_one_by_one(again: Again) -> None:  # noqa: F811
    db = again(None)
    db.sql(SHOP)
    db.sql("INSERT INTO customer (id, email) VALUES (1, 'a'), (2, 'b')")
    db.sql("INSERT INTO orders (customer_id, price) VALUES (1, 5)")
    db.sql("BEGIN; INSERT INTO customer (id, email) VALUES (3, 'c'); SAVEPOINT s")
    for statement, code in [
        ("INSERT INTO customer (id, email) VALUES (4, 'c')", "E_UNIQUE"),
        ("INSERT INTO customer (id, email, age) VALUES (4, 'd', 3)", "E_CHECK"),
        ("INSERT INTO orders (customer_id, price) VALUES (9, 1)", "E_FOREIGN_KEY"),
        ("UPDATE customer SET email = 'a' WHERE id = 2", "E_UNIQUE"),
    ]:
        with pytest.raises(ev.ConstraintError) as error:
            db.sql(statement)
        assert error.value.code == code, statement
        db.sql("ROLLBACK TO s")
    db.sql("INSERT INTO orders (customer_id, price) VALUES (3, 1); DELETE FROM customer WHERE id = 1")
    assert db.sql("SELECT customer_id FROM orders").rows() == [(3,)]
    db.sql("UPDATE customer SET id = 30 WHERE id = 3")
    assert db.sql("SELECT customer_id FROM orders").rows() == [(30,)]
    db.sql("COMMIT")
    assert sorted(db.sql("SELECT id, email FROM customer").rows()) == [(2, "b"), (30, "c")]
    assert db.sql("SELECT customer_id FROM orders").rows() == [(30,)]


def test_what_becomes_of_rows_that_refer() -> None:
    db = ev.connect()
    db.sql("""
        CREATE TABLE p (a int, b int, PRIMARY KEY (a, b));
        CREATE TABLE nothing (x int, y int, FOREIGN KEY (x, y) REFERENCES p);
        CREATE TABLE nulls (x int, y int, FOREIGN KEY (y, x) REFERENCES p (b, a) ON DELETE SET NULL ON UPDATE SET NULL);
        CREATE TABLE defaults (x int DEFAULT 0, y int DEFAULT 0, FOREIGN KEY (x, y) REFERENCES p ON DELETE SET DEFAULT);
        CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE);
        INSERT INTO p VALUES (0, 0), (1, 1), (2, 2), (3, 3);
        INSERT INTO nulls VALUES (1, 1), (2, 2), (NULL, 9);
        INSERT INTO defaults VALUES (1, 1), (2, 2);
        INSERT INTO tree VALUES (1, 1), (2, 1), (3, 2), (4, 3), (9, NULL);
    """)
    db.sql("DELETE FROM p WHERE a = 1")
    assert sorted(db["nulls"].rows(), key=str) == [(2, 2), (None, 9), (None, None)]
    assert sorted(db["defaults"].rows()) == [(0, 0), (2, 2)]
    db.sql("INSERT INTO nothing VALUES (3, 3), (NULL, 7)")
    text = refused(db, "E_FOREIGN_KEY", "nothing_x_y_fkey", lambda: db.sql("DELETE FROM p WHERE a = 3"))
    assert "(x, y) = (3, 3) still refers to a row of p that is gone" in text
    refused(db, "E_FOREIGN_KEY", "nothing_x_y_fkey", lambda: db["p"].delete([(3, 3)]))
    refused(db, "E_FOREIGN_KEY", "nothing_x_y_fkey", lambda: db["p"].clear())
    db.sql("DELETE FROM defaults; UPDATE p SET a = 5 WHERE a = 2")
    assert sorted(db["nulls"].rows(), key=str) == [(None, 9), (None, None), (None, None)]
    db.sql("DELETE FROM tree WHERE id = 2")
    assert sorted(db["tree"].rows(), key=str) == [(1, 1), (9, None)]
    with pytest.raises(ev.EverviewError) as error:
        db.sql("DROP TABLE p")
    assert error.value.code == "E_IN_USE" and "constraint nothing_x_y_fkey" in error.value.message
    db.sql("DROP TABLE p CASCADE; INSERT INTO nothing VALUES (8, 8)")


def test_conflicts_by_unique_columns() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (id int PRIMARY KEY, email text UNIQUE, n int DEFAULT 0)")
    db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    db.sql("INSERT INTO t VALUES (4, 'a', 5) ON CONFLICT (email) DO UPDATE SET n = t.n + excluded.n")
    db.sql("INSERT INTO t VALUES (5, 'b', 7) ON CONFLICT ON CONSTRAINT t_email_key DO UPDATE SET n = excluded.n")
    db.sql("INSERT INTO t VALUES (6, 'b'), (1, 'q'), (7, NULL), (8, 'z'), (9, 'z') ON CONFLICT DO NOTHING")
    expected = [(1, "a", 5), (2, "b", 7), (3, None, 0), (7, None, 0), (8, "z", 0)]
    assert sorted(db["t"].rows()) == expected
    db.sql("CREATE TABLE u (x int); INSERT INTO u VALUES (1), (2); CREATE UNIQUE INDEX only_once ON u (x)")
    refused(db, "E_UNIQUE", "only_once", lambda: db.sql("INSERT INTO u VALUES (2)"))
    db.sql("DROP INDEX only_once; INSERT INTO u VALUES (2)")
    with pytest.raises(ev.ConstraintError):
        db.sql("CREATE UNIQUE INDEX ON u (x)")
    db.sql("INSERT INTO u VALUES (2)")


def test_alter(again: Again) -> None:  # noqa: F811
    db = again(None)
    db.sql("CREATE TABLE p (k int PRIMARY KEY); CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 2), (2, 3)")
    db.sql("ALTER TABLE t ADD CONSTRAINT less CHECK (a < b), ADD UNIQUE (a), ALTER b SET DEFAULT 10")
    db = again(db)
    refused(db, "E_CHECK", "less", lambda: db.sql("INSERT INTO t VALUES (5, 5)"))
    refused(db, "E_FOREIGN_KEY", "t_a_fkey", lambda: db.sql("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p"))
    db.sql("INSERT INTO p VALUES (1), (2), (3); ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p")
    db.sql("INSERT INTO t (a) VALUES (3)")
    assert sorted(db["t"].rows()) == [(1, 2), (2, 3), (3, 10)]
    db.sql(
        "ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 4 CHECK (c > 3), ADD d int GENERATED ALWAYS AS (a * b) STORED"
    )
    assert sorted(db["t"].rows()) == [(1, 2, 4, 2), (2, 3, 4, 6), (3, 10, 4, 30)]
    db = again(db)
    with pytest.raises(ev.ConstraintError):
        db.sql("ALTER TABLE t ADD COLUMN e int DEFAULT 4 CHECK (e > 4)")
    assert list(db["t"].schema()) == ["a", "b", "c", "d"]
    db.sql("ALTER TABLE t RENAME COLUMN a TO aa; ALTER TABLE t RENAME TO tt")
    db = again(db)
    refused(db, "E_CHECK", "less", lambda: db.sql("UPDATE tt SET aa = 11"))
    refused(db, "E_FOREIGN_KEY", "t_a_fkey", lambda: db.sql("INSERT INTO tt (aa) VALUES (7)"))
    refused(db, "E_UNIQUE", "t_a_key", lambda: db.sql("INSERT INTO tt (aa) VALUES (2)"))
    db.sql("ALTER TABLE tt ALTER aa SET NOT NULL, ALTER b DROP DEFAULT")
    refused(db, "E_UNIQUE", "t_a_key", lambda: db.sql("INSERT INTO tt (aa) VALUES (2)"))
    db.sql("ALTER TABLE tt DROP CONSTRAINT t_a_fkey, DROP CONSTRAINT less, DROP CONSTRAINT IF EXISTS nope")
    db.sql("INSERT INTO tt (aa) VALUES (99)")
    db = again(db)
    assert (99, None, 4, None) in db["tt"].rows()
    db.sql("ALTER TABLE tt DROP COLUMN c")
    db.sql("INSERT INTO tt (aa, b) VALUES (98, 1)")
    assert db.check() == []


def test_conditions_that_fail_refuse_the_row() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, b int, CHECK (a / b < 10))")
    db.sql("INSERT INTO t VALUES (5, 1), (NULL, 0)")
    assert "division by zero" in refused(db, "E_CHECK", "t_check", lambda: db.sql("INSERT INTO t VALUES (1, 0)"))
    db.sql("BEGIN")
    with pytest.raises(ev.ConstraintError):
        db.sql("INSERT INTO t VALUES (1, 0)")
    db.sql("ROLLBACK")


def test_a_crash_between_declarations_leaves_all_or_nothing(tmp_path: Path) -> None:
    """CREATE TABLE with constraints is one record of the log: cut off before its end, there is no table."""
    db = ev.connect(tmp_path / "db")
    db.sql("CREATE TABLE first (x int PRIMARY KEY)")
    log = max((p for p in (tmp_path / "db").rglob("*") if p.is_file()), key=lambda p: p.stat().st_mtime_ns)
    before = log.stat().st_size
    db.sql("CREATE TABLE t (a int PRIMARY KEY REFERENCES first, b int UNIQUE DEFAULT 3, CHECK (b > 2), c serial)")
    after = log.stat().st_size
    for size in range(before, after, max((after - before) // 7, 1)):
        where = copied(tmp_path / "db", tmp_path / f"cut{size}")
        other = where / log.relative_to(tmp_path / "db")
        other.write_bytes(other.read_bytes()[:size])
        cut = ev.connect(where)
        assert list(cut.tables) == ["first"]
        cut.close()
    db.close()
    db = ev.connect(tmp_path / "db")
    assert list(db.tables) == ["first", "t"] and len(db.sql("SHOW TABLES").rows()) == 2
    refused(db, "E_FOREIGN_KEY", "t_a_fkey", lambda: db.sql("INSERT INTO t (a) VALUES (1)"))
    db.close()


def _holds(p: Counter, c: Counter) -> bool:
    """The oracle: what the constraints of the random test say, from scratch."""
    keys = [row[0] for row in p.elements()]
    names = [row[1] for row in p.elements() if row[1] is not None]
    return (
        len(set(keys)) == len(keys)
        and len(set(names)) == len(names)
        and all(r[0] is None or r[0] in keys for r in c.elements())
        and all(r[1] is None or r[1] > 0 for r in c.elements())
    )


@pytest.mark.parametrize("shards", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_random_changes_against_a_model(shards: int, seed: int) -> None:
    rng = random.Random(seed)
    db = local_shards(shards=shards) if shards else ev.connect()
    db.sql("""
        CREATE TABLE p (k int PRIMARY KEY, name text UNIQUE);
        CREATE TABLE c (k int REFERENCES p, n int CHECK (n > 0))
    """)
    p: Counter = Counter()
    c: Counter = Counter()
    outcomes: Counter = Counter()
    for _ in range(120):
        new_p, new_c = Counter(p), Counter(c)
        try:
            with db.transaction():
                for _ in range(rng.randint(1, 4)):
                    table, model = rng.choice([("p", new_p), ("c", new_c)])
                    if rng.random() < 0.4 and model:
                        row = rng.choice(sorted(model.elements(), key=str))
                        db[table].delete([row])
                        model[row] -= 1
                    else:
                        row = (
                            (rng.randint(0, 6), rng.choice([None, "a", "b", "c", "d"]))
                            if table == "p"
                            else (rng.choice([None, *range(6)]), rng.choice([None, 0, 1, 2, 2]))
                        )
                        if table == "p" and any(r[0] == row[0] for r in new_p.elements()):
                            continue  # a key that is there is refused at once
                        db[table].insert([row])
                        model[row] += 1
                    new_p, new_c = +new_p, +new_c
            refused_step = False
        except ev.ConstraintError:
            refused_step = True
        assert refused_step == (not _holds(new_p, new_c)), (new_p, new_c)
        if not refused_step:
            p, c = new_p, new_c
        outcomes[refused_step] += 1
        assert (Counter(db["p"].rows()), Counter(db["c"].rows())) == (p, c)
    assert min(outcomes.values()) > 10


def test_defaults_of_all_kinds() -> None:
    db = ev.connect()
    db.sql("""
        CREATE SEQUENCE numbers START 1000;
        CREATE TABLE d (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a int DEFAULT 1 + 2 * 3, b text DEFAULT 'x' || upper('y'),
            c date DEFAULT current_date - 7, e float DEFAULT random(), f bool DEFAULT NOT false,
            g int[] DEFAULT '{1,2}', h interval DEFAULT '1 day',
            i jsonb DEFAULT '{}'::jsonb, j int DEFAULT NULL, l numeric(8,2) DEFAULT 1.5,
            m int DEFAULT -1, n int DEFAULT nextval('numbers'), o timestamptz DEFAULT now()
        );
        INSERT INTO d DEFAULT VALUES;
        INSERT INTO d (a, m) VALUES (DEFAULT, 2), (9, DEFAULT)
    """)
    rows = db.sql("SELECT a, b, f, g, i, j, l, m, n FROM d ORDER BY n").rows()
    assert rows == [
        (7, "xY", True, [1, 2], {}, None, pytest.approx(1.5), -1, 1000),
        (7, "xY", True, [1, 2], {}, None, pytest.approx(1.5), 2, 1001),
        (9, "xY", True, [1, 2], {}, None, pytest.approx(1.5), -1, 1002),
    ]
    assert len({r for (r,) in db.sql("SELECT id FROM d").rows()}) == 3
    assert db.sql("SELECT nextval('numbers'), currval('numbers')").rows() == [(1003, 1003)]


@pytest.mark.parametrize("how", ["sql", "python"])
def test_a_serial_column_begins_again_with_its_table(how: str) -> None:
    db = ev.connect()
    for _ in range(2):
        db.sql("CREATE TABLE n (id serial PRIMARY KEY, x int)")
        db.sql("INSERT INTO n (x) VALUES (5), (6)")
        assert db["n"].rows() == [(1, 5), (2, 6)]
        if how == "sql":
            db.sql("DROP TABLE n")
        else:
            db["n"].drop()


def test_a_sequence_is_in_use_by_its_whole_name() -> None:
    """`seq` is a part of the name `p_n_seq`, and another sequence; how a name is spelled makes no difference."""
    db = ev.connect()
    db.sql("CREATE SEQUENCE seq; CREATE TABLE p (n serial, m int)")
    db.sql("DROP SEQUENCE seq")
    db.sql("CREATE SEQUENCE seq; CREATE TABLE q (m int DEFAULT nextval('SEQ') + 1)")
    for name in ("seq", "p_n_seq"):
        with pytest.raises(ev.EverviewError, match="E_IN_USE"):
            db.sql(f"DROP SEQUENCE {name}")
    db.sql("INSERT INTO q DEFAULT VALUES")
    db.sql("CREATE TABLE r (m int DEFAULT nextval('seq'::regclass), k int)")  # as dumps have it
    db.sql("INSERT INTO r (k) VALUES (1)")
    assert (db["q"].rows(), db["r"].rows()) == ([(2,)], [(2, 1)])


def test_unique_is_looked_at_when_a_statement_ends() -> None:
    """As SQL says, and as PostgreSQL does where UNIQUE is DEFERRABLE: else it refuses these, depending on the order in
    which it finds the rows.
    """
    db = ev.connect()
    db.sql("CREATE TABLE p (k int PRIMARY KEY, n text UNIQUE); INSERT INTO p VALUES (1, 'a'), (2, 'b')")
    db.sql("UPDATE p SET n = CASE n WHEN 'a' THEN 'b' ELSE 'a' END")
    db.sql("UPDATE p SET k = k + 1")
    source = "SELECT * FROM (VALUES (2, 'a'), (3, 'b')) AS w (k, n)"
    db.sql(f"MERGE INTO p USING ({source}) AS v ON p.k = v.k WHEN MATCHED THEN UPDATE SET n = v.n")
    assert sorted(db["p"].rows()) == [(2, "a"), (3, "b")]
    with pytest.raises(ev.ConstraintError) as caught:
        db.sql("UPDATE p SET n = 'c'")
    assert caught.value.code == "E_UNIQUE"


def test_a_check_comes_before_the_key() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE p (k int PRIMARY KEY, q int CHECK (q > 0)); INSERT INTO p VALUES (1, 1)")
    for rows in ("(1, -1)", "(1, -1), (2, 3)"):
        with pytest.raises(ev.EverviewError) as caught:
            db.sql(f"INSERT INTO p VALUES {rows}")
        assert caught.value.code == "E_CHECK", "as in PostgreSQL, where it was the key"
    with pytest.raises(ev.EverviewError) as caught:
        db.sql("INSERT INTO p VALUES (1, 2)")
    assert caught.value.code == "E_KEY" and db["p"].rows() == [(1, 1)]
