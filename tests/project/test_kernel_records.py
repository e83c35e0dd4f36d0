"""Records of kernels: one prefix each, declared in one way, and no constant twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "src" / "everview" / "kernels"
NUMBERED = {"expressions/vm.py"}  # opcodes, read as `vm.ADD`


def tuples() -> Iterator[tuple[str, list[str]]]:
    """Every `(A, B, C) = range(3)` of kernels: its file and its names."""
    for path in sorted(KERNELS.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("range("):
                yield (
                    str(path.relative_to(KERNELS)),
                    [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)],
                )


def prefix_of(names: list[str]) -> str:
    """The record's name as it stands in its size, `BATCH_` of BATCH_WORDS, if all its fields begin so."""
    prefix = names[-1].removesuffix("RECORD_WORDS").removesuffix("WORDS")
    return prefix if all(name.startswith(prefix) for name in names) else ""


def test_a_record_has_one_prefix() -> None:
    found = {(path, names[-1]): prefix_of(names) for path, names in tuples() if names[-1].endswith("WORDS")}
    assert len(found) > 15
    assert {record: prefix for record, prefix in found.items() if not prefix.endswith("_")} == {}


def test_records_have_prefixes_of_their_own() -> None:
    prefixes: dict[str, set[str]] = defaultdict(set)
    for path, names in tuples():
        if path not in NUMBERED and names[-1].endswith("WORDS"):
            prefixes[prefix_of(names)].add(path + ":" + names[-1])
    assert {prefix: records for prefix, records in prefixes.items() if len(records) > 1} == {}


def test_no_constant_is_declared_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(KERNELS.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [
                e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t]) if isinstance(e, ast.Name)
            ]
            for name in names:
                if name.id.isupper():
                    places[name.id].append(str(path.relative_to(KERNELS)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
