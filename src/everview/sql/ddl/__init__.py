"""Definitions: CREATE, ALTER, DROP, COMMENT ON.

Read in this order:

    schemas                                   qualified names, and the search path
    definitions, create_table_as              CREATE TABLE, CREATE VIEW and DROP; CREATE TABLE ... AS
    alter_statements, comments                ALTER, COMMENT ON
    indexes                                   CREATE INDEX
    sql_functions, function_arguments         CREATE FUNCTION ... LANGUAGE SQL; the arguments of calls
    watermark                                 WATERMARK FOR in CREATE TABLE
    settings                                  CREATE TYPE, SET TIME ZONE
    domains, domain_statements                CREATE DOMAIN
    declarations, options, sequences, no_ops  table declarations; WITH (...); statements without effect
    elsewhere                                 statements about other systems' clusters, secrets and sinks
"""
