"""Compiled code over raw int64 memory. Kernels know addresses and words, never plans or sessions.

Start with `native` (how kernels are declared), then `memory`, `batch`, `trace`.
"""
