"""PostgreSQL's wire protocol: psql, drivers and BI tools reach a session as they reach PostgreSQL.

Read in this order:

    messages, wire                    bytes to messages and back; one connection's bytes
    sqlstates, error_responses        SQLSTATEs, and error responses
    oids, formats                     PostgreSQL's types, values in text and binary form
    scram, startup                    authentication; TLS, versions, cancellation
    lexer, commands                   statement classification
    settings                          SET and SHOW
    key_lookups, pipelined_lookups    prepared key look-ups, answered where the bytes arrive
    literal_shapes                    texts that differ in their constants only
    connection_work                   a connection's statements on the engine's thread, its staged transaction
    answers, column_encoder           columns, rows in pieces, tags; many rows column by column
    client                            the state of a connection
    statement_executor                what each statement does
    cursors                           DECLARE, FETCH
    copy_forms, copy_protocol         COPY
    subscribe_statements              SUBSCRIBE, in three ways
    catalog                           pg_catalog and information_schema
    connection                        the protocol loop
    listener                          the port
    transactional_ddl                 definitions inside a transaction
"""
