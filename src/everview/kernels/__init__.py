"""Compiled code over raw int64 memory. Kernels know addresses and words, never plans or sessions.

Importing the package points Numba at the right cache directory before the first kernel is defined (`cache`).
"""

from everview.kernels import cache

cache.configure()
