"""A server: one process owns a session, and many clients share its tables, views and indexes.

Read in this order:

    engine           the thread that owns the session, and its queue of work
    chunks, feeds    the changes of views, in chunks shared by all subscribers
    turnstile        rate limiting of thousands of subscribers that wake together
    sql_calls        executing a client's SQL in the shared session
    subscription     one client's position in the feeds of several views
    server_process   the process: listeners, signals, start-up messages
    threaded_server  a server in a thread of a program
    http             HTTP and WebSocket
    pg               PostgreSQL's protocol

Everything but the engine's thread is one asyncio loop. Nothing on the loop waits for the session, which would block
every client: only look-ups by key and short changes are done there, and only while no other thread is using it.

Further modules:

    settings, identity, jwt, fingerprints  addresses and authentication
    visitors, observing                    who is connected; following the schema `ev`
    logs, support                          the log as JSON; a support bundle without data
    jobs, fairness, readers, quotas        queued work, fair scheduling, parallel reads, quotas
    short_work, direct_selector            what is done on the loop itself: short changes, look-ups
"""
