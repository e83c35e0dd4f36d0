"""Row expressions: `vm` (a vectorised VM) and `scalars` (its operations on one value)."""
