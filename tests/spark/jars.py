"""Jars from the Maven registry, and other versions of Python packages, for tests of connectors; kept in .cache. Where
they cannot be had, a test is skipped and says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.clusters import ROOT

KAFKA_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",  # runs on Spark 4.3, for which there is none here yet
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
KAFKA_BROKER = (
    "org.apache.kafka:kafka_2.13:4.2.0",
    "org.apache.kafka:kafka-tools:4.2.0",
    "org.slf4j:slf4j-nop:1.7.36",
)

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>everview</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def jars(*wanted: str, alone: bool = False) -> list[Path]:
    """The jars of `group:artifact:version[:classifier]`s with all they need, or (`alone`) just these."""
    name = hashlib.sha1(repr((wanted, alone)).encode()).hexdigest()[:12]
    place = ROOT / ".cache" / "jars" / name
    if not place.is_dir():
        _fetch(wanted, alone, place)
    return sorted(place.glob("*.jar"))


def _fetch(wanted: tuple[str, ...], alone: bool, place: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("no mvn to fetch jars with")
    work = place.with_name(f"{place.name}-{os.getpid()}")
    (work / "jars").mkdir(parents=True)
    (work / "pom.xml").write_text(_POM.format("".join(_dependency(w, alone) for w in wanted)))
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={work / 'jars'}", "-DincludeScope=runtime"]
    done = subprocess.run(["mvn", "-q", "-B", "-f", work, *copy], capture_output=True, text=True, timeout=400)
    if done.returncode == 0:
        (work / "jars").rename(place)
    shutil.rmtree(work)
    if done.returncode:
        pytest.skip(f"jars cannot be fetched: {done.stdout[:300]}")


def _dependency(wanted: str, alone: bool) -> str:
    tags = ("groupId", "artifactId", "version", "classifier")
    names = "".join(f"<{tag}>{name}</{tag}>" for tag, name in zip(tags, wanted.split(":"), strict=False))
    return f"<dependency>{names}{_ALONE if alone else ''}</dependency>"


HDFS = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",  # and the rest of Hadoop from Spark's own jars
    "org.junit.jupiter:junit-jupiter-api:5.13.4",
    "org.junit.platform:junit-platform-commons:1.13.4",
    "org.opentest4j:opentest4j:1.3.0",
    "org.mockito:mockito-core:5.18.0",
    "net.bytebuddy:byte-buddy:1.17.5",
    "org.objenesis:objenesis:3.4",
)

S3_SERVER = ("moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5")
"""In a folder of its own, because it wants other versions of what pandas needs than pandas has."""
S3A = ("org.apache.hadoop:hadoop-aws:3.5.0", "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1")
"""Hadoop's S3, without the 600 MB that it asks for; these parts of them are enough:"""
_PARTS = ("apache-client", "netty-nio-client", "s3-transfer-manager", "sts")
AWS_SDK = tuple(f"software.amazon.awssdk:{part}:2.35.4" for part in _PARTS)


def python_package(*wanted: str) -> Path:
    """A folder for PYTHONPATH with packages (`name==version`) and what they need."""
    place = ROOT / ".cache" / "pip" / "+".join(wanted).replace("==", "-")
    if not place.is_dir():
        work = place.with_name(f"{place.name}-{os.getpid()}")
        quick = ["--quiet", "--disable-pip-version-check", "--no-compile"]  # moto has 2,000 modules, and few are used
        install = [sys.executable, "-m", "pip", "install", *quick, "--target", str(work), *wanted]
        done = subprocess.run(install, capture_output=True, text=True, timeout=500)
        if done.returncode:
            shutil.rmtree(work, ignore_errors=True)
            pytest.skip(f"{', '.join(wanted)} cannot be installed: {done.stderr[:300]}")
        try:
            work.rename(place)
        except OSError:  # another process was quicker
            shutil.rmtree(work)
    return place
