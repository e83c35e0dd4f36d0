"""The gang protocol: long-lived tasks, each with shards of its own, and their messages to and from the driver.

This package is the protocol alone. It opens no connections, starts no tasks and reads no clock, so the same code runs
over Spark and sockets (`everview.spark.driver.gang`, `everview.spark.workers.tasks`) and in a simulator that loses
processes and delays messages by seed (tests/spark/gang_simulator.py).

Read in this order:

    messages       the messages
    ownership      which member runs which shards
    coordinator    the driver's end: members, meetings, and the fate of a step
    member         a task's end: meet, run steps, report
"""
