"""Row expressions: `vm` (a vectorised machine) and `scalars` (what it does to one value)."""
