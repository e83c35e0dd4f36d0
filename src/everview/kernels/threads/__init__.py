"""Helper threads: `team` (sharing work), `private_copy` (their private output)."""
