"""A mixed load for as long as one likes, compared with a model; memory and latency have to stay flat.

Read `load` (what is done, and what must be there then), `flat` (what flat means), `__main__` (the run).
"""
