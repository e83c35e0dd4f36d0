"""The gang: tasks that stay, each with shards of its own, and what they and the driver say to each other.

Here is the protocol alone. Nothing in this package opens a connection, starts a task or looks at a clock, so the same
code runs over Spark and sockets (`everview.spark.driver.gang`, `everview.spark.workers.tasks`) and in a simulator that
loses processes and delays messages by seed (tests/spark/gang_simulator.py).

Read in this order:

    messages       what is said
    ownership      which member runs which shards
    coordinator    the driver's end: who is there, who meets whom, what becomes of a step
    member         a task's end: meet, run steps, report
"""
