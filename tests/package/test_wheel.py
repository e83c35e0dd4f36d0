"""The built wheel, with each extra alone, in environments that have nothing else: `make wheel-test`.

The wheel is named by EVERVIEW_WHEEL. An environment's programs run outside the checkout, with an empty home and cache
and a PATH without anything, so that they can only use what was installed.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.wheel]
ROOT = Path(__file__).resolve().parents[2]
CPU_SECONDS = 3.0
"""What the README's first program may take, importing and loading kernels included."""


def wheel() -> Path:
    given = os.environ.get("EVERVIEW_WHEEL")
    if not given:
        pytest.skip("EVERVIEW_WHEEL names no wheel: run `make wheel-test`")
    return Path(given).resolve()


TOOLS = ("bash", "cat", "dirname", "env", "ls", "ps", "sed", "tr", "uname")
"""What scripts of Spark's call; no Java is among them."""


class Environment(NamedTuple):
    """An environment of Python that holds the wheel and what one extra asks for."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        """Nothing of this process's surroundings."""
        home = self.folder / "home"
        if not home.exists():
            home.mkdir()
            for tool in TOOLS:
                (self.folder / "bin" / tool).symlink_to(str(shutil.which(tool)))
        return {"HOME": str(home), "PATH": str(self.folder / "bin"), "LANG": "C.UTF-8", "TMPDIR": str(self.folder)}

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=self.folder,
            env={**self.variables, **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done

    def program(self, text: str, **more: str) -> str:
        done = self.run("python", "-c", text, **more)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def packages(self) -> set[str]:
        found = self.program(
            "from importlib.metadata import distributions as d\nfor p in d(): print(p.metadata['Name'])"
        )
        return {name.lower() for name in found.split()}


def made(folder: Path, extra: str) -> Environment:
    """`pip install 'everview-*.whl[extra]'` into an empty environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    asked = f"everview[{extra}] @ {wheel().as_uri()}" if extra else str(wheel())
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", "--no-compile", asked], check=True)
    return Environment(folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    yield made(tmp_path_factory.mktemp("plain"), "")


def test_the_wheel_is_for_one_platform_and_any_python() -> None:
    assert re.fullmatch(r"everview-[\d.]+-cp311-abi3-(?!any)\w+\.whl", wheel().name)
    kernels = [n for n in zipfile.ZipFile(wheel()).namelist() if "everview-kernels" in n]
    assert kernels and all(name.endswith(".so") for name in kernels)


def test_no_compiler_is_installed(plain: Environment) -> None:
    assert not {"numba", "llvmlite", "scipy", "pandas", "pyspark"} & plain.packages()


def test_the_readmes_first_program_starts_at_once(plain: Environment, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    program = next(block for block in blocks if "connect()" in block)
    asking = next(block for block in blocks if ">>>" in block)
    lines = [line.removeprefix(">>> ") for line in asking.splitlines() if line.startswith(">>> ")]
    (plain.folder / "first.py").write_text("\n".join([program, *lines]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = plain.run("python", "first.py")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, "")
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert taken < CPU_SECONDS
    assert not list((plain.folder / "home").rglob("*.kernels")), "something was compiled"


def test_languages_and_directories_work(plain: Environment) -> None:
    found = plain.program("""
import everview as ev
with ev.connect("state") as db:
    db.sql("CREATE TABLE t (k text, x int); CREATE VIEW v AS SELECT k, sum(x) AS x FROM t GROUP BY k")
    db.sql("INSERT INTO t VALUES ('a', 1), ('a', 2)")
    db.datalog("big(K, X) :- t(K, X), X > 1.")
with ev.connect("state") as db:
    print(sorted(db["v"].rows()), db["big"].rows())
""")
    assert found == "[('a', 3)] [('a', 2)]\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("everview", "--version"), "everview "),
        (("everview", "doctor"), "all is well"),
        (("everview", "sql", "-c", "SELECT 1 + 1 AS two"), "two"),
    ],
    ids=["version", "doctor", "sql"],
)
def test_the_command_line_works(plain: Environment, command: tuple[str, ...], expected: str) -> None:
    done = plain.run(*command)
    assert (done.returncode, expected in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("objdump") is None or sys.platform != "linux", reason="no objdump, or no ELF files")
def test_the_platform_tag_is_true(tmp_path: Path) -> None:
    """The kernels need no library and no version of a symbol, so that any glibc since 2.17 has what they ask for; and
    of Python only its stable ABI.
    """
    with zipfile.ZipFile(wheel()) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".so")]
        archive.extract(name, tmp_path)
    heads = subprocess.run(["objdump", "-p", tmp_path / name], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in heads and "Version References" not in heads
    symbols = subprocess.run(["objdump", "-T", tmp_path / name], capture_output=True, text=True, check=True).stdout
    asked = {line.split()[-1] for line in symbols.splitlines() if "*UND*" in line}
    assert asked and asked <= IN_EVERY_LIBC | IN_THE_STABLE_ABI, asked - IN_EVERY_LIBC - IN_THE_STABLE_ABI
    assert "cp311-abi3-manylinux_2_17" in wheel().name


IN_EVERY_LIBC = {
    *("malloc", "realloc", "free", "memmove", "memset", "memcpy", "_setjmp", "longjmp", "mmap", "mremap", "munmap"),
    *("pthread_getspecific", "pthread_setspecific", "exp", "exp2", "fmod", "log", "log2", "log10", "pow"),
}
"""What kernels ask of the C library: glibc has had all of it since long before 2.17."""

IN_THE_STABLE_ABI = {
    *("PyBuffer_Release", "PyErr_BadArgument", "PyErr_Occurred", "PyErr_SetObject", "PyEval_RestoreThread"),
    *("PyEval_SaveThread", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyObject_GetBuffer"),
    *("PyThread_acquire_lock", "PyThread_release_lock"),
}
"""What they ask of CPython; the buffer functions are in the stable ABI since 3.11."""


def test_a_build_that_is_not_there_says_what_to_install(plain: Environment) -> None:
    done = plain.run("python", "-c", "import everview; everview.connect()", EVERVIEW_DEBUG="1")
    assert done.returncode == 1
    assert "E_KERNELS" in done.stderr and "pip install 'everview[compile]'" in done.stderr


def test_a_programs_own_import_of_the_compiler_fails_as_it_should(plain: Environment) -> None:
    plain.program("""
import everview, sys
everview.connect()
assert "llvmlite" not in sys.modules
try:
    import llvmlite
except ImportError:
    sys.exit(0)
sys.exit("a placeholder was left behind")
""")


def test_spark_alone(tmp_path: Path) -> None:
    environment = made(tmp_path / "env", "spark")
    found = environment.program("""
import everview as ev, everview.spark
spark = everview.spark.local_session("local[2]")
with ev.connect(spark, state="state") as db:
    orders = db.table("orders", {"who": str, "amount": int})
    total = db.view("total", orders.group_by("who").agg(amount=ev.col.amount.sum()))
    orders.insert([("Ada", 5), ("Ada", 2), ("Bob", 1)])
    orders.insert(spark.createDataFrame([("Bob", 4)], "who string, amount long"))
    print(sorted(total.rows()))
    print(sorted(map(tuple, total.to_spark().collect())))
spark.stop()
""")
    assert found == 2 * "[('Ada', 7), ('Bob', 5)]\n"


def test_a_server_alone(tmp_path: Path) -> None:
    environment = made(tmp_path / "env", "server")
    assert "pandas" not in environment.packages()
    found = environment.program("""
import everview as ev
from everview.server.threaded_server import serve_beside
with serve_beside(ev.connect()) as server, ev.connect(server.address, token=server.token) as db:
    t = db.table("t", {"x": int})
    heard = []
    stop = t.subscribe(heard.append)
    t.insert([(1,), (2,)])
    stop.wait_for(1)
    print(db.sql("SELECT sum(x) AS s FROM t").rows(), heard)
    stop()
""")
    assert found == "[(3,)] [Batch(time=1, rows=[((1,), 1), ((2,), 1)])]\n"


def test_object_stores_alone(tmp_path: Path) -> None:
    environment = made(tmp_path / "env", "s3")
    assert "obstore" in environment.packages()
    found = environment.program("""
from obstore.store import MemoryStore
from everview.store.objects import ObjectFiles
files = ObjectFiles("s3://bucket/state", MemoryStore())
print(files.create("a", b"1"), files.create("a", b"2"), files.read("a"))
""")
    assert found == "True False b'1'\n"


def test_notebooks_alone(tmp_path: Path) -> None:
    environment = made(tmp_path / "env", "notebook")
    found = environment.program("""
from everview import notebook
widget = notebook._widget()
widget.page = "<p>1</p>"
print(widget.page)
""")
    assert found == "<p>1</p>\n"


def test_the_compiler_alone(tmp_path: Path) -> None:
    environment = made(tmp_path / "env", "compile")
    assert {"numba", "llvmlite"} <= environment.packages()
    program = "from everview.kernels.build import native, compiler; print(len(compiler.PARTS))"
    assert environment.program(program, EVERVIEW_COMPILING="1") == "2\n"
