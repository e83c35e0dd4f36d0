"""Rows in and out: `frames`, `streams` (sources), `topics`, `writers` (sinks), `datasource` (`format("everview")`),
`views`; `encode` and `encoded` (rows coded on the workers).
"""
