"""PostgreSQL's wire protocol: psql, drivers and BI tools reach a session as they reach PostgreSQL.

Read in this order:

    messages, wire      bytes to messages and back; one connection's bytes
    states, faults      SQLSTATEs, and error responses
    oids, formats       PostgreSQL's types, values in text and binary form
    scram, startup      authentication; TLS, versions, cancellation
    lexing, commands    statement classification
    settings            SET and SHOW
    quick, at_once      prepared key look-ups, answered where the bytes arrive
    work                a connection's statements on the engine's thread, its staged transaction
    answers, columnwise columns, rows in pieces, tags; many rows column by column
    client              the state of a connection
    executing           what each statement does
    cursors             DECLARE, FETCH
    copy_forms, copying COPY
    subscribing         SUBSCRIBE, in three ways
    catalog             pg_catalog and information_schema
    connection          the protocol loop
    listener            the port
    defining, pump        definitions inside a transaction; reading from many connections
"""
