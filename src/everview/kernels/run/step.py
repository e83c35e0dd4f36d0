"""The block of words that describes the current step; every operator that needs it has its address."""

from __future__ import annotations

STEP_BASE, STEP_EPOCHS, STEP_STOP, STEP_FAULT, STEP_TEAM, STEP_SPLIT, STEP_WORDS = range(7)
"""The last epoch before the step and the number of its own; STEP_FAULT: why it cannot be committed (see
`everview.kernels.frontier.offers`). STEP_TEAM: the threads that share large pieces of work, or 0 (see
`everview.kernels.threads.team`); STEP_SPLIT: rows from which work is shared.
"""
