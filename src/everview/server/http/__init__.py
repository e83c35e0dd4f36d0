"""HTTP and WebSocket: SQL and Datalog in, JSON or Arrow out, and what changes as it changes.

Read in this order:

    shown        values as JSON that browsers can read
    guard        who may come in: tokens, Host, Origin, sizes
    answers      from a request to the engine and back; errors as JSON
    statements   SQL, transactions, Datalog
    relations    tables and views: contents, changes, pushed rows
    resuming     tokens to go on with
    frames       what a subscriber is sent
    sockets      subscriptions over WebSocket
    events       the same as server-sent events, for curl
    calls        what Everview's own client calls
    metrics      /healthz, /readyz, /metrics
    openapi      the document that says all this to programs
    app          the routes
    parting      the end of a WebSocket whose client takes nothing
    listener     uvicorn in the server's loop
"""
