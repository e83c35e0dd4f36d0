"""Rows in and out of Spark.

Read in this order: `sources`, `frames` and `streams` (DataFrames as sources), `topics` and `writers` (sinks),
`datasource` (`format("everview")`), `views`, `encode` and `encoded` (rows encoded on the workers).
"""
