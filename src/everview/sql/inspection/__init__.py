"""Introspection of queries and names.

`explain_statements` has EXPLAIN, `describe_statements` DESCRIBE, `show_statements` SHOW,
`create_statements` SHOW CREATE, and `reasons` WHY.
"""
