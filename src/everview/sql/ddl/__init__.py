"""Definitions: CREATE, ALTER, DROP, COMMENT ON.

Read in this order:

    schemas                qualified names, and the search path
    definitions, filled    CREATE TABLE, CREATE VIEW and DROP; CREATE TABLE ... AS
    altering, comments     ALTER, COMMENT ON
    indexes                CREATE INDEX
    defined                CREATE FUNCTION ... LANGUAGE SQL
    watermark              WATERMARK FOR in CREATE TABLE
    settings               CREATE TYPE, SET TIME ZONE
    declared, options, sequences, already    table declarations; WITH (...); statements without effect
"""
