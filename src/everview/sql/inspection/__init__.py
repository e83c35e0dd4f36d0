"""Introspection of queries and names.

`explaining` has EXPLAIN, `describing` DESCRIBE, `showing` SHOW, and `reasons` WHY.
"""
