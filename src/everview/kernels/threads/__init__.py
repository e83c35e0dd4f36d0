"""Helper threads: `thread_pool` (sharing work), `private_copy` (their private output)."""
