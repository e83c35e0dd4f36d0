"""A real Kafka broker on 127.0.0.1, one process in KRaft mode, from the jars of the Maven registry."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from everview.spark import find_java
from tests.spark.jars import KAFKA_BROKER, jars

NULL = "<null>"
"""How the console producer is told of a key or value that is not there."""

_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{inner}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{inner}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class Broker:
    """A broker that runs; topics come into being when they are first written, with two partitions."""

    def __init__(self, servers: str, java: list[str]) -> None:
        self.servers = servers
        self._java = java

    def send(self, topic: str, records: Iterable[tuple[str | None, str | None]]) -> None:
        """Write records (key, value)."""
        lines = "".join(f"{NULL if k is None else k}\t{NULL if v is None else v}\n" for k, v in records)
        reader = [f"--reader-property={p}" for p in ("parse.key=true", "key.separator=\t", f"null.marker={NULL}")]
        tool = ["org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", self.servers, "--topic", topic]
        subprocess.run([*self._java, *tool, *reader], input=lines, text=True, check=True, timeout=60)

    def read(self, topic: str, count: int) -> list[tuple[str, str, str]]:
        """The topic's first `count` records: headers, key, value."""
        show = [f"--formatter-property=print.{what}=true" for what in ("headers", "key")]
        tool = ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", self.servers]
        rest = ["--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000"]
        command = [*self._java, *tool, *rest, *show]
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=90).stdout
        records = [line.split("\t") for line in found.splitlines()]
        return [(headers, key, value) for headers, key, value in records]


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker with its data in a folder."""
    found = jars(*KAFKA_BROKER)
    folder.mkdir()
    port, inner = _free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, inner=inner, folder=folder))
    java = [str(find_java().home / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1"]
    java += ["-cp", os.pathsep.join(map(str, found))]
    format = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(settings)]
    subprocess.run([*java, *format], check=True, capture_output=True, timeout=60)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
    try:
        _wait(port, process, folder / "log")
        yield Broker(f"127.0.0.1:{port}", java)
    finally:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])
