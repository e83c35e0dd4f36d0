"""Spark clusters whose executors are processes of their own, made from the pip package alone, on 127.0.0.1.

`local-cluster[2,1,2048]` starts them from the driver's JVM, `standalone` from a master and workers as one would on
several machines. Both write logs and working directories under SPARK_HOME, which for the pip package is site-packages:
`home` makes a SPARK_HOME elsewhere out of links.

A process has one JVM and that JVM one master, so whatever uses such a cluster runs in a process of its own: `run`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def home(folder: Path) -> Path:
    """A SPARK_HOME that may be written to."""
    import pyspark

    made = folder / "spark"
    made.mkdir(parents=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name in ("bin", "jars", "python"):
            (made / part.name).symlink_to(part)
    return made


def environment(spark_home: Path) -> dict[str, str]:
    """What master, workers and drivers have in their environment."""
    from everview.spark import find_java
    from everview.spark.java.home import home_for_spark

    return os.environ | {
        "SPARK_HOME": str(spark_home),
        "JAVA_HOME": str(home_for_spark(find_java().home)),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }


@contextmanager
def standalone(folder: Path, workers: int = 2, cores: int = 1, memory: str = "2g") -> Iterator[str]:
    """A standalone master with workers; gives its address."""
    place = home(folder)
    env = environment(place)
    started: list[subprocess.Popen[bytes]] = []

    def start(log: str, *command: str) -> Path:
        path = folder / log
        with path.open("wb") as file:
            program = [str(place / "bin" / "spark-class"), f"org.apache.spark.deploy.{command[0]}", *command[1:]]
            # a process group of its own, so that executors go with their worker
            started.append(subprocess.Popen(program, env=env, stdout=file, stderr=file, start_new_session=True))
        return path

    try:
        log = start("master.log", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = _said(log, r"Starting Spark master at (spark://\S+)")
        for i in range(workers):
            options = ("--cores", str(cores), "--memory", memory, "--host", "127.0.0.1", "--webui-port", "0")
            where = ("--work-dir", str(folder / f"work{i}"))
            log = start(f"worker{i}.log", "worker.Worker", master, *options, *where)
        for i in range(workers):
            _said(folder / f"worker{i}.log", r"(Successfully registered) with master")
        yield master
    finally:
        for process in started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in started:
            process.wait()


def _said(log: Path, pattern: str, patience: float = 180.0) -> str:
    """Wait until a log says something; gives the group."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"{log} does not say {pattern}:\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def cluster(kind: str, folder: Path, executors: int = 2) -> Iterator[tuple[str, dict[str, str]]]:
    """Executors with one core each: the master's address, and the environment for its drivers."""
    if kind == "standalone":
        with standalone(folder, executors) as master:
            yield master, environment(folder / "spark")
    else:
        yield f"local-cluster[{executors},1,2048]", environment(home(folder))


def run(module: str, *arguments: str, env: dict[str, str], timeout: float = 500.0) -> str:
    """Run a module in a process of its own; gives what it printed."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{module} failed:\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout
