"""`python benchmarks` and `everview bench`: see run.py."""

from __future__ import annotations

import sys

import run

sys.exit(run.main(sys.argv[1:]))
