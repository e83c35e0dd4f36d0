"""HTTP and WebSocket: SQL and Datalog in, JSON or Arrow out, and subscriptions.

Read in this order:

    json_values    values as JSON that browsers can read
    guard          admission: tokens, Host, Origin, sizes
    answers        from a request to the engine and back; errors as JSON
    arrow_pieces   large results as Arrow, piece by piece
    statements     SQL, transactions, Datalog
    relations      tables and views: contents, changes, pushed rows
    resume_tokens  resume tokens
    frames         messages to subscribers
    sockets        subscriptions over WebSocket
    events         the same as server-sent events, for curl
    calls          calls of Everview's own client
    metrics        /healthz, /readyz, /metrics
    openapi        the OpenAPI document
    app            the routes
    slow_clients   closing WebSockets of unresponsive clients
    listener       uvicorn in the server's loop
"""
