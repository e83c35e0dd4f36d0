"""Access rights: users have roles, roles contain roles, roles may open things. Who may open what, and why not any more?

The rights are one path expression: from a user any number of `has` edges to roles, then one `may` edge to a thing. A
role taken away removes exactly the rights that no other way gives.
"""

from __future__ import annotations

import everview as ev
from everview.graph import Graph


def main() -> None:
    """A small company; then the interns' role changes, and a change that changes nothing."""
    with ev.connect() as db:
        grant = db.table("grant", {"src": str, "kind": str, "dst": str})
        user = db.table("user", {"name": str})
        rights = db.view("rights", Graph(grant, label="kind").rpq("has+ / may", sources=user), index_by="src")

        with db.transaction():
            user.insert([("ines",), ("otto",)])
            grant.insert(
                [
                    ("ines", "has", "intern"),
                    ("otto", "has", "engineer"),
                    ("engineer", "has", "intern"),
                    ("engineer", "has", "operator"),
                    ("intern", "may", "wiki"),
                    ("intern", "may", "build server"),
                    ("operator", "may", "build server"),
                    ("operator", "may", "production"),
                ]
            )
        print("at first:")
        for name in ("ines", "otto"):
            print(f"  {name} may open {', '.join(sorted(thing for _, thing in rights.lookup(name)))}")

        grant.delete([("intern", "may", "build server")])
        print("interns lose the build server:", describe(rights.changes(since=db.time - 1)))
        assert ("otto", "build server") in rights.rows(), "still through operator"

        grant.insert([("otto", "has", "operator")])
        print("otto becomes operator twice over:", describe(rights.changes(since=db.time - 1)))

        grant.delete([("engineer", "has", "operator")])
        print("engineers are operators no more:", describe(rights.changes(since=db.time - 1)))
        assert sorted(rights.rows()) == [
            ("ines", "wiki"),
            ("otto", "build server"),
            ("otto", "production"),
            ("otto", "wiki"),
        ]


def describe(changes: list[tuple[tuple[str, str], int, int]]) -> str:
    """Changes of the rights in words."""
    said = [f"{who} {'may' if diff > 0 else 'may not'} open {what}" for (who, what), _, diff in sorted(changes)]
    return "; ".join(said) or "nobody's rights change"


if __name__ == "__main__":
    main()
