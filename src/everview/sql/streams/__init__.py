"""Continuous statements: SUBSCRIBE (`subscription`), and CREATE SOURCE, CREATE SINK and RUN (`pipelines`)."""
