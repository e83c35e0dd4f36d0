"""pg_catalog and information_schema, for psql's \\d, reflection and BI tools.

Read in this order:

    relations           which relations there are, and their columns
    contents            what a session has, as rows of them
    constraint_rows     those of constraints, defaults and sequences
    names               names as SQL writes them
    functions           what catalogue queries call
    sqlite_translation  PostgreSQL's SQL as SQLite takes it
    result_types        the types of a query's columns
    catalog             which statements are about the catalogue, and their answers
    privileges          roles, rights and policies
"""

from __future__ import annotations

from everview.server.pg.catalog.catalog import Catalog

__all__ = ["Catalog"]
