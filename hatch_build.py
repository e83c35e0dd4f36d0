"""Puts compiled kernels into a wheel: those in the folder that EVERVIEW_KERNELS names, where `make wheel` made them.

Without that variable the wheel is plain Python, for every platform, and needs `everview[compile]`. With it, the wheel
is for this platform. Its kernels use only Python's stable ABI, and refer to the C library without versions
(`everview.kernels.build.linker`), so one wheel serves CPython 3.11 and later, and every glibc since 2.17.
"""

from __future__ import annotations

import os
import platform
import runpy
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "everview/everview-kernels"


def platform_tag() -> str:
    """What pip calls this platform."""
    if sys.platform == "linux":
        return f"manylinux_2_17_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def source_hash(root: Path) -> str:
    """What names the kernels of these sources, asked of the module that knows, without its package."""
    path = root / "src" / "everview" / "kernels" / "build" / "cache.py"
    return str(runpy.run_path(str(path))["source_hash"]())


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling before it collects files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the kernels and name the platform."""
        kernels = os.environ.get("EVERVIEW_KERNELS")
        if not kernels or version == "editable":
            return
        folder = Path(kernels, f"{source_hash(Path(self.root))}-normal")  # those of other sources stay behind
        files = sorted(folder.glob("*.so"))
        if not files:
            raise FileNotFoundError(f"there is no shared library of these kernels in {folder}: run `make wheel`")
        for path in files:
            build_data["force_include"][str(path)] = f"{FOLDER}/{folder.name}/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform_tag()}"
