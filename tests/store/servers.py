"""Real servers of object stores and of HDFS, each in a process of its own on 127.0.0.1, as fixtures that give a URI for
state. What clients need to know of them is in the environment as long as a fixture lasts, for programs that tests start
too. Where one cannot be had, its tests are skipped and say so.

`s3` is moto, from PyPI; `az` is Azurite, from npm; `hdfs` is a name node and a data node in one JVM, from Maven and
Spark's own jars. For Google's there is none: the client speaks the XML API, and fake-gcs-server (1.56) takes no puts
that way.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from everview.errors import StoreError
from everview.store.locations import open_files
from tests.spark.clusters import ROOT
from tests.spark.jars import HDFS, S3_SERVER, jars, python_package

MOTO = """
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

moto, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

def one_at_a_time(environ, start_response):
    with turn:
        return moto(environ, start_response)

make_server("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True).serve_forever()
"""
"""moto looks whether a name is free and takes it in two steps, so two requests at once may both have it. S3 does it in
one, and so does moto when requests take turns."""

WATCHED = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.read()  # until the test ends, however it ends
server.kill()
"""

AZURITE = "azurite@3.35.0"
AZURITE_ACCOUNT = (  # the same for everybody
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(
    command: list[str], answers: Callable[[], Any], known: Mapping[str, str], env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A server, while the environment knows of it; `answers` raises until it is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHED, *command], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=os.environ | dict(env or {}),
    )  # fmt: skip
    assert process.stdin is not None
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in known.items():
                patch.setenv(name, value)
            limit = time.monotonic() + 120
            while True:
                try:
                    answers()
                    break
                except (OSError, StoreError):
                    if time.monotonic() > limit:
                        raise
                    time.sleep(0.2)
            yield
    finally:
        process.stdin.close()
        process.wait()


def request(url: str, method: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, method=method)).close()


def fetched(place: Path, command: list[str], **env: str) -> Path:
    """What a package manager brought, kept in .cache."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} to fetch a server with")
    if not place.exists():
        done = subprocess.run(command, capture_output=True, text=True, timeout=580, env=os.environ | env)
        if done.returncode:
            pytest.skip(f"{command[-1]} cannot be had: {done.stderr[-300:]}")
    return place


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """A bucket's URI."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    known = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    path = {"PYTHONPATH": str(python_package(*S3_SERVER))}
    command = [sys.executable, "-c", MOTO, str(port)]
    with serving(command, lambda: request(f"{endpoint}/bucket", "PUT"), known, path):
        yield "s3://bucket"


@pytest.fixture(scope="session")
def az() -> Iterator[str]:
    """A container's URI."""
    home, port = ROOT / ".cache" / "npm" / AZURITE, free_port()
    options = ["--no-audit", "--no-fund", "--silent", "--prefix", str(home)]
    server = fetched(home / "node_modules" / ".bin" / "azurite-blob", ["npm", "install", *options, AZURITE])
    name, key = AZURITE_ACCOUNT
    known = {
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
        "AZURE_STORAGE_ACCOUNT_NAME": name,
        "AZURE_STORAGE_ACCOUNT_KEY": key,
        "AZURE_ALLOW_HTTP": "true",
    }

    def make_container() -> None:
        where = {"blob_storage_authority": f"127.0.0.1:{port}", "dfs_storage_authority": f"127.0.0.1:{port}"}
        schemes = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
        socket.create_connection(("127.0.0.1", port)).close()
        fs.AzureFileSystem(account_name=name, account_key=key, **where, **schemes).create_dir("container")

    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with serving([str(server), *options, "--blobPort", str(port)], make_container, known):
        yield "az://container"


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A directory's URI."""
    import pyspark

    from everview.spark.java.java_discovery import find_java

    port, home = free_port(), tmp_path_factory.mktemp("hdfs")
    places = [*map(str, jars(*HDFS, alone=True)), str(Path(pyspark.__file__).parent / "jars" / "*")]
    java = str(find_java().home / "bin" / "java")
    command = [java, "-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", ":".join(places)]
    cluster = ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1", "-httpport", str(port)]
    settings = {"hdfs.minidfs.basedir": home, "dfs.replication": 1, "dfs.permissions.enabled": "false"}
    options = [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]
    where = f"127.0.0.1:{port}"

    def write() -> None:  # the name node answers before the data node is there
        open_files(f"webhdfs://{where}").write("ready", b"")

    with serving([*command, *cluster, *options], write, {"HADOOP_USER_NAME": "everview"}):
        yield f"webhdfs://{where}/state"
