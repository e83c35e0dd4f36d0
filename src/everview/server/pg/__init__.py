"""PostgreSQL's wire protocol: psql, drivers and BI tools reach a session as they reach PostgreSQL.

Read in this order:

    messages, wire      bytes to messages and back; one connection's bytes
    states, faults      SQLSTATEs, and how errors are told
    oids, formats       types as clients know them, values in text and binary form
    scram, startup      who it is; TLS, versions, cancelling
    lexing, commands    which statement it is
    settings            SET and SHOW
    quick, at_once      look-ups by key, prepared once, and answered where the bytes arrive
    work                a connection's statements on the engine's thread, its staged transaction
    answers, columnwise columns, rows in pieces, tags; many rows column by column
    client              what a connection remembers
    executing           what each statement does
    cursors             DECLARE, FETCH
    copy_forms, copying COPY
    subscribing         SUBSCRIBE, in three ways
    catalog             pg_catalog and information_schema
    connection          the conversation
    listener            the port
    defining, pump        definitions inside a transaction; reading from many connections
"""
