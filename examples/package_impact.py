"""What breaks if a package is removed? Debian's dependencies through five releases, or a small made-up archive.

A package needs another if a path of Depends and Pre-Depends leads there, so what breaks with it are the packages that
lead to it: the same paths walked backwards. The packages asked about are a table too. Each release is one transaction
of inserted and deleted dependencies, and the counts follow.

The real data is used if it is there: `python examples/package_impact.py path/to/debian-deps.tsv.xz`.
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import everview as ev
from everview.graph import Graph

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "debian-deps.tsv.xz"
RELEASES = ("bullseye", "bookworm", "trixie", "forky", "sid")
ASKED = ("imagemagick-6-common", "libwebp6", "libwebp7", "libpython3.11-minimal", "python3-six")
NEEDS = ("Depends", "Pre-Depends")

Release = tuple[str, pa.Table, pa.Table]
"""(name, dependencies that came, dependencies that went), as tables of package, kind, needs"""


def debian(path: Path) -> Iterator[Release]:
    """The releases of the real archive."""
    names = ["step", "diff", "package", "kind", "needs"]
    with lzma.open(path) as file:
        rows = pyarrow.csv.read_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(column_names=names),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
        )
    rows = rows.filter(pc.is_in(rows["kind"], pa.array(NEEDS)))
    for step, name in enumerate(RELEASES):
        now = rows.filter(pc.equal(rows["step"], step))
        came, went = (now.filter(pc.equal(now["diff"], diff)).select(names[2:]) for diff in (1, -1))
        yield name, came, went


def made_up(packages: int = 400) -> Iterator[Release]:
    """A small archive: package i needs i // 2; every release moves some of the packages elsewhere."""
    needs = {i: i // 2 for i in range(1, packages)}
    yield "first", table(needs), table({})
    for number, release in enumerate(("second", "third"), start=2):
        moved = {i: ASKED_AT + number for i in range(number, packages, 7) if i > packages // 2}
        yield release, table(moved), table({i: needs[i] for i in moved})
        needs.update(moved)


ASKED_AT = 3
"""The made-up package that is asked about, and those after it."""


def table(needs: dict[int, int]) -> pa.Table:
    """Dependencies of numbered packages."""
    return pa.table(
        {
            "package": pa.array([f"pkg{i}" for i in needs], pa.string()),
            "kind": pa.array(["Depends"] * len(needs), pa.string()),
            "needs": pa.array([f"pkg{i}" for i in needs.values()], pa.string()),
        }
    )


def main(path: Path) -> None:
    """Install the view, then follow the releases."""
    real = path.exists()
    with ev.connect() as db:
        dependency = db.table("dependency", {"package": str, "kind": str, "needs": str})
        asked = db.table("asked", {"package": str})
        g = Graph(dependency, src="package", dst="needs", label="kind")
        breaks = db.view("breaks", g.rpq("^(Depends | 'Pre-Depends')+", sources=asked), index_by="src")
        impact = db.view("impact", breaks.group_by("src").agg(packages=ev.count()))
        asked.insert([(name,) for name in (ASKED if real else [f"pkg{ASKED_AT + i}" for i in range(4)])])

        for name, came, went in debian(path) if real else made_up():
            with db.transaction():
                dependency.delete(went)
                dependency.insert(came)
            print(f"{name}: {came.num_rows} dependencies came, {went.num_rows} went")
            for package, n in sorted(impact.rows()):
                print(f"  without {package} {n} packages break")
        assert sum(n for _, n in impact.rows()) == len(breaks.rows())
        worst = max(impact.rows(), key=lambda row: row[1])
        print(f"most missed: {worst[0]}; asking about one package more costs one insert:")
        asked.insert([("coreutils" if real else "pkg2",)])
        print(" ", sorted(row for row, _, diff in impact.changes(since=db.time - 1) if diff > 0))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
