"""Access control: the current `principal`, the stored roles (`roles`, `passwords`), and the single place that decides
(`access`).
"""
