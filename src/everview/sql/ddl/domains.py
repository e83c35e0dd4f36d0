"""CREATE DOMAIN: a type with a default and conditions, for columns of tables.

    CREATE DOMAIN price AS numeric(10, 2) NOT NULL CHECK (VALUE >= 0);
    CREATE TABLE item (name text, price price)

A column of a domain is one of its type, with its constraints: VALUE is the column. They are enforced however rows
arrive, like those that the column says itself. A cast to a domain is one to its type: a row whose value violates a
condition fails (`everview.sql.scalar.casts`).
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from everview.sql.scalar import names
from everview.sql.text import consumed_parts
from everview.sql.text.dialects import Everview
from everview.sql.text.error_positions import Source


def column(rules: str) -> exp.ColumnDef | None:
    """The text of a domain as a column."""
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE d (value {rules})", read=Everview)
    except ParseError:
        return None
    items = tree.this.expressions if isinstance(tree, exp.Create) and isinstance(tree.this, exp.Schema) else []
    return items[0] if len(items) == 1 and isinstance(items[0], exp.ColumnDef) and items[0].kind else None


def declared(item: exp.ColumnDef, source: Source) -> tuple[exp.DataType, list[exp.ColumnConstraint]]:
    """The type and the constraints of a column: with those of its domain, and of the domain that this is of."""
    kind, constraints = item.kind, list(item.args.get("constraints") or [])
    assert kind is not None
    while kind.this == exp.DataType.Type.USERDEFINED:
        name = names.named_type(names.type_name(kind), source.domains)
        made = column(source.domains[name]) if name in source.domains else None
        if made is None or made.kind is None:
            break
        consumed_parts.understood(kind)
        has_default = any(isinstance(c.kind, exp.DefaultColumnConstraint) for c in constraints)
        own = [
            c
            for c in made.args.get("constraints") or []
            if not (has_default and isinstance(c.kind, exp.DefaultColumnConstraint))
        ]
        for one in own:
            one.set("this", None)  # several columns may be of the domain: each has a name of its own for the constraint
        for part in [c for one in own for c in one.find_all(exp.Column)]:
            if part.name.lower() == "value":
                part.replace(exp.Column(this=exp.to_identifier(item.name, quoted=True)))
        kind, constraints = made.kind, [*constraints, *own]
    return kind, constraints
