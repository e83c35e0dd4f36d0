"""Reductions. Read `reduce`, then what it uses: `context` (the record), `interesting` (at which times to look),
`history` (a key at a time), `aggregate` (the output that should be), `corrections` (less what the output is), `python`.
"""
