"""The target processors of shipped kernels: named baselines, so that a wheel runs on other machines too.

    x86-64-v2   SSE4.2 and POPCNT: every x86-64 since about 2009
    x86-64-v3   AVX2, BMI2 and FMA besides: since about 2013, but not all of them
    armv8-a     every 64-bit ARM

The x86-64 levels are those of its psABI; LLVM and GCC use the same names. Kernels compiled without a wheel target the
local processor.
"""

from __future__ import annotations

import platform
import sys
from functools import cache
from pathlib import Path

_V2 = frozenset("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3".split())
_V3 = _V2 | frozenset("avx avx2 bmi1 bmi2 f16c fma abm movbe xsave".split())
LEVELS = {"x86-64-v3": _V3, "x86-64-v2": _V2}
"""Levels of x86-64, best first, and what Linux calls their features."""

BASELINES = {"x86_64": "x86-64-v2", "AMD64": "x86-64-v2", "aarch64": "armv8-a", "arm64": "armv8-a"}
"""What a wheel for a machine is compiled for."""

IN_LLVM = {"armv8-a": "generic"}
"""Names that LLVM has no processor for."""


@cache
def runnable() -> tuple[str, ...]:
    """The names of what this machine can run, best first."""
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return tuple(name for at, name in BASELINES.items() if at == machine)
    if sys.platform != "linux":  # every other machine with a current system has at least the baseline
        return (BASELINES[machine],)
    flags = _flags(Path("/proc/cpuinfo"))
    return tuple(name for name, needed in LEVELS.items() if needed <= flags)


def _flags(path: Path) -> frozenset[str]:
    """The features of the first processor in the list that Linux keeps."""
    try:
        with path.open() as lines:
            return next((frozenset(line.split()) for line in lines if line.startswith("flags")), frozenset())
    except OSError:
        return frozenset()
