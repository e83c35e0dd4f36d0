"""Random sets of policies, for each command, against an oracle in Python that follows PostgreSQL's manual.

Policies are permissive and restrictive, for one command or all, for one role or everybody, with USING and WITH CHECK.
They are created, altered and dropped while tenants change rows. Some tenants share a role and differ in attributes:
what is kept for one of them (plans, checks, streams) must not be another's.

    SELECT    rows that some permissive policy for SELECT or ALL admits, and every restrictive one
    UPDATE    of these, the rows that those for UPDATE admit; new rows pass WITH CHECK (USING, if there is none) of
              UPDATE, and are visible
    DELETE    of the visible rows, those that policies for DELETE admit
    INSERT    new rows pass WITH CHECK of INSERT; with RETURNING, they are visible
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import everview as ev
from everview.session.rights.principal import Principal, acting

Row = tuple[int, str, int]
Holds = Callable[[Row, "Who"], bool]


@dataclass(frozen=True)
class Who:
    """A tenant: two of them have the same role."""

    role: str
    tenant: str

    @property
    def principal(self) -> Principal:
        return Principal(self.role, {"tenant": self.tenant})


TENANTS = [Who("u0", "a"), Who("u0", "b"), Who("u0", "c"), Who("u1", "a"), Who("u2", "c")]

CONDITIONS: list[tuple[str, Holds]] = [
    ("tenant = current_setting('tenant')", lambda row, who: row[1] == who.tenant),
    ("tenant <> current_setting('tenant')", lambda row, who: row[1] != who.tenant),
    ("n > 2", lambda row, who: row[2] > 2),
    ("n < 7", lambda row, who: row[2] < 7),
    ("true", lambda row, who: True),
    ("current_user = 'u' || (n % 3)::text", lambda row, who: who.role == f"u{row[2] % 3}"),
    ("tenant IN (SELECT m.tenant FROM member m WHERE m.who = current_user)",
     lambda row, who: row[1] in {"u0": "ac", "u1": "b", "u2": ""}[who.role]),
]  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A policy."""

    name: str
    command: str
    restrictive: bool
    role: str
    using: int | None
    check: int | None

    def text(self) -> str:
        parts = [f"CREATE POLICY {self.name} ON doc AS {'RESTRICTIVE' if self.restrictive else 'PERMISSIVE'}"]
        parts.append(f"FOR {self.command} TO {self.role}")
        if self.using is not None:
            parts.append(f"USING ({CONDITIONS[self.using][0]})")
        if self.check is not None:
            parts.append(f"WITH CHECK ({CONDITIONS[self.check][0]})")
        return " ".join(parts)


@dataclass
class World:
    """The session, and what there should be."""

    db: Any
    random: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    policies: dict[str, Made] = field(default_factory=dict)
    made: int = 0
    following: dict[Who, tuple[Any, Counter[Row]]] = field(default_factory=dict)

    # the oracle

    def admitted(self, row: Row, who: Who, command: str, new: bool = False) -> bool:
        some, every = False, True
        for policy in self.policies.values():
            if policy.command not in ("ALL", command) or policy.role not in ("public", "app", who.role):
                continue
            at = policy.check if new and policy.check is not None else policy.using
            if at is None:
                continue
            holds = CONDITIONS[at][1](row, who)
            every &= holds or not policy.restrictive
            some |= holds and not policy.restrictive
        return some and every

    def visible(self, who: Who) -> list[Row]:
        return [row for row in self.rows.values() if self.admitted(row, who, "SELECT")]

    def inserted(self, row: Row, who: Who, returning: bool) -> bool:
        return self.admitted(row, who, "INSERT", new=True) and (not returning or self.admitted(row, who, "SELECT"))

    def updated(self, row: Row, who: Who) -> bool:
        return self.admitted(row, who, "UPDATE", new=True) and self.admitted(row, who, "SELECT")

    # what happens

    def policy(self) -> None:
        """One more, one less, or another condition; what is followed ends with it."""
        r = self.random
        kind = r.choice(["create", "create", "drop", "alter"])
        if self.policies and (kind == "drop" or len(self.policies) > 5):
            name = r.choice([*self.policies])
            self.db.sql(f"DROP POLICY {name} ON doc")
            del self.policies[name]
        elif self.policies and kind == "alter":
            name = r.choice([*self.policies])
            policy, at = self.policies[name], r.randrange(len(CONDITIONS))
            part = "WITH CHECK" if policy.command == "INSERT" else "USING"
            self.db.sql(f"ALTER POLICY {name} ON doc {part} ({CONDITIONS[at][0]})")
            self.policies[name] = replace(policy, using=at) if part == "USING" else replace(policy, check=at)
        else:
            self.made += 1
            command = r.choice(["ALL", "ALL", "SELECT", "SELECT", "INSERT", "UPDATE", "DELETE"])
            using = None if command == "INSERT" else r.randrange(len(CONDITIONS))
            checks = command in ("ALL", "INSERT", "UPDATE") and (using is None or r.random() < 0.5)
            role = r.choice(["public", "public", "app", "u0", "u1"])
            check = r.randrange(len(CONDITIONS)) if checks else None
            self.add(Made(f"p{self.made}", command, r.random() < 0.3, role, using, check))
        self.leave()

    def add(self, made: Made) -> None:
        self.db.sql(made.text())
        self.policies[made.name] = made

    def change(self) -> None:
        """A statement of a tenant, which ends as the oracle says."""
        r, who = self.random, self.random.choice(TENANTS)
        row, after = (r.randrange(14), r.choice("abc"), r.randrange(9)), dict(self.rows)
        kind, returning = r.choice(["insert", "insert", "update", "delete", "table", "delete rows"]), r.random() < 0.3
        good, tail = True, " RETURNING *" if returning else ""
        if kind in ("insert", "table"):
            good = row[0] not in self.rows and self.inserted(row, who, returning and kind == "insert")
            after[row[0]] = row
            self.end(who, good, after, f"INSERT INTO doc VALUES {row!r}{tail}" if kind == "insert" else [row])
        elif kind == "update":
            mine = [o for o in self.visible(who) if o[0] <= row[0] and self.admitted(o, who, "UPDATE")]
            new = {o[0]: (o[0], row[1], row[2]) for o in mine}
            good = all(self.updated(o, who) for o in new.values())
            text = f"UPDATE doc SET tenant = '{row[1]}', n = {row[2]} WHERE id <= {row[0]}{tail}"
            self.end(who, good, {**after, **new}, text)
        elif kind == "delete":
            mine = [o for o in self.visible(who) if o[0] >= row[0] and self.admitted(o, who, "DELETE")]
            left = {i: o for i, o in after.items() if o not in mine}
            self.end(who, True, left, f"DELETE FROM doc WHERE id >= {row[0]}{tail}")
        elif self.rows:
            gone = r.choice([*self.rows.values()])
            good = self.admitted(gone, who, "SELECT") and self.admitted(gone, who, "DELETE")
            del after[gone[0]]
            with acting(who.principal):
                self.attempt(good, after, lambda: self.db["doc"].delete([gone]), (gone, who))

    def end(self, who: Who, good: bool, after: dict[int, Row], what: str | list[Row]) -> None:
        with acting(who.principal):
            do = (lambda: self.db.sql(what)) if isinstance(what, str) else (lambda: self.db["doc"].insert(what))
            self.attempt(good, after, do, (what, who))

    def attempt(self, good: bool, after: dict[int, Row], do: Callable[[], Any], said: Any) -> None:
        try:
            do()
        except ev.EverviewError as error:
            assert not good, (said, str(error), self.policies)
            assert error.code in ("E_FORBIDDEN", "E_KEY"), (said, str(error))
        else:
            assert good, (said, self.rows, self.policies)
            self.rows = after

    def follow(self) -> None:
        who = self.random.choice(TENANTS)
        if who not in self.following:
            text = self.random.choice(["doc", "(SELECT id, tenant, n FROM doc WHERE id >= 0)"])
            with acting(who.principal):
                self.following[who] = self.db.sql(f"SUBSCRIBE TO {text}"), Counter()

    def leave(self) -> None:
        for stream, _ in self.following.values():
            stream.close()
        self.following.clear()

    def check(self) -> None:
        assert sorted(self.db["doc"].rows()) == sorted(self.rows.values())
        for who in TENANTS:
            own = sorted(self.visible(who))
            with acting(who.principal):
                assert sorted(self.db.sql("SELECT * FROM doc").rows()) == own, (who, self.policies)
                assert self.db.sql("SELECT count(*) AS n, max(n) AS m FROM doc").rows() == [
                    (len(own), max((row[2] for row in own), default=None))
                ]
        for who, (stream, told) in self.following.items():
            for batch in stream:
                for row, diff in batch.rows():
                    told[row] += diff
            assert sorted((+told).elements()) == sorted(self.visible(who)), (who, self.policies)


@pytest.fixture
def db() -> Iterator[Any]:
    with ev.connect(files=False) as session:
        session.sql(
            "CREATE TABLE doc (id int PRIMARY KEY, tenant text, n int); CREATE TABLE member (who text, tenant text);"
            "CREATE ROLE app; CREATE USER u0 IN ROLE app; CREATE USER u1 IN ROLE app; CREATE USER u2 IN ROLE app;"
            "INSERT INTO member VALUES ('u0', 'a'), ('u0', 'c'), ('u1', 'b');"
            "GRANT SELECT, INSERT, UPDATE, DELETE ON doc TO app; ALTER TABLE doc ENABLE ROW LEVEL SECURITY"
        )
        yield session


def campaign(db: Any, seed: int, steps: int) -> None:
    world = World(db, random.Random(seed))
    if seed % 2:  # the most common one, whose rows are whose even if other policies come and go
        world.add(Made("own", "ALL", False, "public", 0, None))
    for step in range(steps):
        if step < 3 or world.random.random() < 0.15:
            world.policy()
        if world.random.random() < 0.3:
            world.follow()
        world.change()
        world.check()
    world.leave()


@pytest.mark.parametrize("seed", range(3))
def test_random_policies(db: Any, seed: int) -> None:
    campaign(db, seed, 30)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 100 + int(os.environ.get("EVERVIEW_SEEDS", "20"))))
def test_many_random_policies(db: Any, seed: int) -> None:
    campaign(db, seed, 100)
