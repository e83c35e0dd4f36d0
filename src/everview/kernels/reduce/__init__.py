"""Reductions. Read `reduce`, then what it uses: `context` (the record), `interesting` (which times to evaluate),
`history` (one key at a time), `aggregate` (the correct output), `corrections` (minus the output so far), `python`.
"""
