"""The block of words that describes the current step; every operator that needs it has its address."""

from __future__ import annotations

(
    STEP_BASE,
    STEP_EPOCHS,
    STEP_STOP,
    STEP_FAULT,
    STEP_TEAM,
    STEP_SPLIT,
    STEP_READY,
    STEP_READY_WORDS,
    STEP_WAKES,
    STEP_TOUCHED,
    STEP_NTOUCHED,
    STEP_WORDS,
) = range(12)
"""The last epoch before the step and the number of its own; STEP_FAULT: why it cannot be committed (see
`everview.kernels.frontier.offers`). STEP_TEAM: the threads that share large pieces of work, or 0 (see
`everview.kernels.threads.thread_pool`); STEP_SPLIT: rows from which work is shared.
STEP_READY to STEP_NTOUCHED: what the step has to visit, and what to commit (see `everview.kernels.run.ready`).
"""
