"""The documentation as a web site, with search: `make site` writes build/site.

Pages are written to be read in the repository, so some link to files outside docs/. Those pages are taken along, and
links to them changed; links to sources, which have no page, become plain text. MkDocs is strict: a link that leads
nowhere, or any other warning, is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGES = ROOT / "build" / "site-pages"
TAKEN = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "results.md",
    "benchmarks/HISTORY.md": "history.md",
}
"""Pages outside docs/, and what they are called in the site."""

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def placed(path: Path) -> Path | None:
    """Where a file of the repository is in the site."""
    inside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    if inside in TAKEN:
        return PAGES / TAKEN[inside]
    if path.is_relative_to(DOCS) and path.suffix in (".md", ".svg", ".png"):
        return PAGES / path.relative_to(DOCS)
    return None


def page(source: Path) -> str:
    """A page with links as they are in the site."""
    here = placed(source)
    assert here is not None

    def changed(found: re.Match[str]) -> str:
        picture, text, target, anchor = found.groups()
        if "://" in target:
            return found[0]
        there = placed((source.parent / target).resolve())
        return f"{picture}[{text}]({os.path.relpath(there, here.parent)}{anchor or ''})" if there else text

    parts = re.split(r"(^```.*?^```$)", source.read_text(), flags=re.M | re.S)  # code stays as it is
    return "".join(part if i % 2 else LINK.sub(changed, part) for i, part in enumerate(parts))


def collect() -> None:
    """All pages and pictures, in one folder."""
    shutil.rmtree(PAGES, ignore_errors=True)
    outside = [ROOT / name for name in TAKEN]
    for source in [*outside, *DOCS.rglob("*")]:
        there = placed(source)
        if there is None or not source.is_file():
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            there.write_text(page(source))
        else:
            shutil.copy(source, there)


def main() -> int:
    """Collect and build."""
    collect()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(DOCS / "mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement, not about these pages
    done = subprocess.run(command, env=environment, check=False).returncode
    if not done:
        print(f"wrote {ROOT / 'build' / 'site' / 'index.html'}")
        print("Its search needs a server: python3 -m http.server -d build/site")
    return done


if __name__ == "__main__":
    sys.exit(main())
