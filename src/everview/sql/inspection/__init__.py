"""Introspection of queries and names.

`explain_statements` has EXPLAIN, `describe_statements` DESCRIBE, `show_statements` SHOW, and `reasons` WHY.
"""
