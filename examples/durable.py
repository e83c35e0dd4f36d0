"""A counter of visits that survives kill -9: run it, kill it, run it again.

The program is run three times here, as a process of its own that is killed while it works. Whatever it had said was
done is there the next time, and the view over it is right.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import everview as ev
from everview import col


def open_shop(directory: Path) -> tuple[ev.Session, ev.Table, ev.View]:
    """The same declarations at every start."""
    db = ev.connect(directory)
    visit = db.table("visit", {"number": int, "page": str})
    pages = db.view("pages", visit.group_by("page").agg(visits=ev.count(), last=col.number.max()))
    return db, visit, pages


def work(directory: Path) -> None:
    """Note visits, one transaction each, and say so after each."""
    db, visit, _ = open_shop(directory)
    while True:
        number = db.time + 1
        visit.insert([(number, f"page {number % 3}")])
        print(number, flush=True)


def killed_while_working(directory: Path, after: int) -> int:
    """Run `work` in a process and kill it after some visits; gives the last that it had said was done."""
    process = subprocess.Popen([sys.executable, __file__, str(directory)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(after)]
    process.kill()
    said += process.stdout.read().split("\n")
    process.wait()
    return max(int(line) for line in said if line.strip())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        for run in range(3):
            acknowledged = killed_while_working(directory, after=20)
            db, visit, pages = open_shop(directory)
            with db:
                assert acknowledged <= db.time <= acknowledged + 1
                assert sorted(n for n, _ in visit.rows()) == list(range(1, db.time + 1))
                assert sum(visits for _, visits, _ in pages.rows()) == db.time
                print(f"run {run + 1}: {acknowledged} visits acknowledged, {db.time} there:", sorted(pages.rows()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]))
    else:
        main()
