"""Running a step: `step` (its record), `scope` (agendas of loops), `executor` (the program), `exchange` (between
shards).
"""
