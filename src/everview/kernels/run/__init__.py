"""Running a step: `step` (its record), `scope` (agendas of loops), `ticks` (a counter), `step_notes` (a log of small
steps), `executor` (the program), `exchange` (between shards).
"""
