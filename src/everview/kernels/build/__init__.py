"""How kernels come to be: `native` (declaring them), `compiling`, `archive` (one file of machine code), `cache` (where
it is kept), `loading` (names become addresses). Only `compiling` imports Numba.
"""
