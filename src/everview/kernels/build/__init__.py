"""Building kernels: `native` (declarations), `compiling`, `archive` (one file of machine code), `cache` (its location),
`loading` (names to addresses). Only `compiling` imports Numba.
"""
