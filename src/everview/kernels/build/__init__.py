"""Building kernels: `native` (declarations), `compiler`, `archive` (one file of machine code), `cache` (its location),
`loader` (names to addresses). Only `compiler` imports Numba.
"""
