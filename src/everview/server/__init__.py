"""A server: one process owns a session, and many clients share its tables, views and indexes.

Read in this order:

    engine         the thread that owns the session, and the one queue in which everything waits for it
    chunks, feeds  what views change, cut into chunks that all their subscribers share
    turnstile      how thousands of subscribers that wake together leave room for others
    asking         a text of SQL from somebody who has no session of their own
    subscription   one client's place in the feeds of several views: what it is told next
    serving        the process: listeners that start and stop together, signals, what is printed
    beside         the same in a thread of a program
    http           HTTP and WebSocket
    pg             PostgreSQL's protocol

Everything but the engine's thread is one asyncio loop. Nothing on the loop reads the session: a read would wait there
for the step under way, and with it every client.

Besides:

    settings, identity, jwt, stamps    how a server is reached, and by whom
    jobs, fairness, readers, quotas    work that waits, whose turn it is, and how much of it
"""
