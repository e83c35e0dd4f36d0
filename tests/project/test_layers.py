"""The table of packages in docs/contributing.md, against what the code imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from everview.plan.components import components

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "everview"
DOORS = {"session/doors.py", "io/doors.py"}
MOST_PRIVATE = 306
"""Accesses to other objects' private names, libraries' included. Lower it when there are fewer; never raise it."""

MOST_INSIDE = 185
"""Imports inside functions. They are doors (`DOORS`), packages that not everybody has, and the engine in commands and
clients that start without it. Lower it when there are fewer; never raise it without such a reason."""


def layers() -> dict[str, int]:
    """Each package's row in the table, from the top."""
    text = (ROOT / "docs" / "contributing.md").read_text()
    table = text[text.index("| package |") : text.index("### Where each is tested")]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()[2:] if line.startswith("|")]
    return {name: row for row, names in enumerate(rows) for name in names}


def running(tree: ast.Module) -> Iterator[ast.AST]:
    """All of a module but what is there for types alone."""
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return (node for node in ast.walk(tree) if id(node) not in for_types)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, package) of everything of Everview's that a module imports when it runs, inside functions too."""
    for node in running(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "everview":
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("everview."):
            yield node.lineno, str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, a.name.split(".")[1]) for a in node.names if a.name.startswith("everview."))


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_package_is_in_the_table() -> None:
    found = {package_of(p) for p in PACKAGE.rglob("*.py")} - {"__init__"}
    assert found == set(layers())


def test_every_package_says_where_it_is_tested() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text()
    table = text[text.index("### Where each is tested") : text.index("## The way of a change")]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[1])} == set(layers())
    named = set(re.findall(r"`tests/(\w+)`", table))
    assert named == {p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and not p.name.startswith("_")}


def test_the_glossary_names_code_that_exists() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    words = [line.split("|") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(words) > 30
    for row in words:
        for name in re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", row[-2]):
            parts = name.removeprefix("everview.").split(".")
            if parts[0] == "db":
                continue
            path = PACKAGE.joinpath(*parts)
            module = PACKAGE.joinpath(*parts[:-1]).with_suffix(".py")
            there = path.is_dir() or path.with_suffix(".py").is_file()
            assert there or (module.is_file() and parts[-1] in module.read_text()), name


def test_every_package_says_what_is_in_it() -> None:
    """Reading orders name every file of the package, and no other."""
    for init in PACKAGE.rglob("__init__.py"):
        folder, text = init.parent, ast.get_docstring(ast.parse(init.read_text())) or ""
        parts = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
        parts -= {"__init__", "__main__"}
        lines = re.findall(r"^    ([a-z_0-9]+(?:, [a-z_0-9]+)*)  +(\S.*)$", text, re.MULTILINE)
        named = {name for names, what in lines for name in names.split(", ") if "`everview." not in what}
        assert named <= parts, f"{folder.name}: {sorted(named - parts)} are not there"
        if len(parts) > 2 and folder != PACKAGE and "kernels" not in folder.parts:  # these say the main ones
            assert parts <= set(re.findall(r"[a-z_0-9]+", text)), folder.name


def test_imports_go_one_way() -> None:
    rows = layers()
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {package_of(path)} imports {other}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "__init__.py" and str(path.relative_to(PACKAGE)) not in DOORS
        for line, other in imports(path)
        if other in rows and rows[other] > rows[package_of(path)]
    ]
    assert wrong == []


def test_doors_open_upwards_only_when_they_are_used() -> None:
    for name in DOORS:
        tree = ast.parse((PACKAGE / name).read_text())
        top = [n for n in tree.body if isinstance(n, ast.ImportFrom) and str(n.module).startswith("everview.")]
        rows = layers()
        assert all(rows[str(n.module).split(".")[1]] <= rows[name.split("/")[0]] for n in top)


def test_no_path_of_one_machine_is_in_the_tree() -> None:
    pattern = re.compile(rb"(^|[^.\w])/(work|farm|root|home)/[a-z]", re.MULTILINE)
    folders = ("src", "tests", "benchmarks", "examples", "docs", ".ci")
    files = [*ROOT.glob("*"), *(p for folder in folders for p in (ROOT / folder).rglob("*"))]
    made = {".git", "__pycache__", "target", "results"}  # results: what benchmarks have measured here
    texts = [p for p in files if p.is_file() and not made & set(p.relative_to(ROOT).parts) and p.suffix != ".gz"]
    assert len(texts) > 1000
    found = [p for p in texts if pattern.search(p.read_bytes())]
    assert [str(p.relative_to(ROOT)) for p in found if p != Path(__file__)] == []


CIRCLES = {
    frozenset({"language.collection", "language.group", "language.join", "language.loop"}),
    # c.group_by(...).agg(...) is a collection again: methods of one class, told in four files
    frozenset({"server.pg.copy_protocol", "server.pg.cursors", "server.pg.statement_executor"}),
    # COPY (query) and DECLARE ... FOR query execute a query, and are executed
    frozenset({"sql.dml.changes", "sql.dml.constraint_checks"}),
    # an UPDATE of a key updates the rows that refer to it (ON UPDATE CASCADE), which may be referred to
    frozenset({"kernels.build.compiler", "kernels.build.native"}),
    # one set of decorators with two meanings, by the process: declaring kernels, and compiling them
}


def test_private_names_of_others_become_fewer() -> None:
    found = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                found += not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    assert found <= MOST_PRIVATE, "give them a name without an underscore, or a door such as relation_of"


def test_imports_inside_functions_become_fewer() -> None:
    found = {
        (path, inner.lineno)
        for path in PACKAGE.rglob("*.py")
        for node in running(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    assert len(found) <= MOST_INSIDE, "import at the top of the file, unless that would load what is seldom needed"


def modules() -> dict[str, Path]:
    """Every module by its dotted name, without `everview.`."""
    found = {".".join(p.relative_to(PACKAGE).with_suffix("").parts): p for p in PACKAGE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in found.items() if name != "__init__"}


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = modules()
    doors = {name for name, path in known.items() if str(path.relative_to(PACKAGE)) in DOORS}
    reads = {n: [] if n in doors else sorted({*imported_modules(p, known)} - {n}) for n, p in known.items()}
    found = {frozenset(circle) for circle in components(reads) if len(circle) > 1}
    assert found - CIRCLES == set()
    assert CIRCLES - found == set(), "no longer needed"


def imported_modules(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules that a module imports when it runs, inside functions too; of a package, the part it takes."""
    for node in running(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("everview"):
            module = str(node.module).removeprefix("everview").removeprefix(".")
            for alias in node.names:
                part = f"{module}.{alias.name}".removeprefix(".")
                if part in known or module in known:
                    yield part if part in known else module
