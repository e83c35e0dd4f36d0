"""A real S3 server on 127.0.0.1 for tests, in a process of its own, and the environment by which clients find it."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from tests.spark.jars import S3_SERVER, python_package

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()  # until the test ends, however it ends
"""


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """A bucket's URI."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": str(python_package(*S3_SERVER))},
    )
    assert process.stdout is not None and process.stdin is not None
    endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
    known = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in known.items():
            patch.setenv(name, value)
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket", method="PUT")).close()
        yield "s3://bucket"
    process.stdin.close()
    process.wait()
