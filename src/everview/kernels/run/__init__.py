"""Running a step: `step` (its record), `scope` (agendas of loops), `ticks` (a counter), `executor` (the program),
`exchange` (between shards).
"""
