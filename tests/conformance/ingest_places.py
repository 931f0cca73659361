"""A Spark session that reaches tables below viewfs, in HDFS and in S3.

Every change of a table is a step, which ``ingest_steps`` counts.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.conformance.s3_server import BUCKET
from tests.kafka_rig.rig import Rig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}


class Place(NamedTuple):
    """A file system: the URI below which tables are, and Spark's settings for it."""

    name: str
    base: str
    settings: dict[str, str]
    jars: tuple[str, ...] = ()


DISK = "disk"
"""The name of the place that needs no Spark."""


class Places:
    """A directory of this machine, and the file systems that a Spark session reaches, if any."""

    def __init__(
        self,
        folder: Path,
        spark: "SparkSession | None" = None,
        places: Iterable[Place] = (),
        classes: str = "",
    ) -> None:
        self.disk = Place(DISK, str(folder / DISK), {})
        self.spark = spark
        self.remote = {place.name: place for place in places}
        self._classes = classes
        if spark is not None:
            self._jvm: Any = spark.sparkContext._jvm
            self._configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def settings(self, place: Place, steps: Path) -> dict[str, str]:
        """Return the settings of another Spark, whose steps are counted in ``steps``."""
        jars = os.pathsep.join((self._classes, *place.jars))
        java = f"{QUICK} -Dsteps.folder={steps}"
        return {
            **QUICK_SETTINGS,
            **place.settings,
            "spark.driver.extraClassPath": jars,
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraClassPath": jars,
            "spark.executor.extraJavaOptions": java,
        }

    def arm(self, steps: Path | None) -> None:
        """Count the steps of this session's JVM in ``steps``; None ends that."""
        if self.spark is not None:
            self._jvm.authorizerd.steps.Steps.arm(None if steps is None else str(steps))

    def put(self, source: Path, uri: str) -> None:
        """Copy a directory of this machine to ``uri``."""
        if uri.startswith("/"):
            shutil.copytree(source, uri)
            return
        files, path = self._open(uri)
        files.mkdirs(path.getParent())
        files.copyFromLocalFile(False, True, self._path(source.as_uri()), path)

    def fetch(self, uri: str, target: Path) -> None:
        """Copy a directory to this machine, if there is one."""
        if uri.startswith("/"):
            if Path(uri).exists():
                shutil.copytree(uri, target)
            return
        files, path = self._open(uri)
        if not files.exists(path):
            return
        found = files.listFiles(path, True)  # a store of S3 may list folders that do not exist
        while found.hasNext():
            file = found.next().getPath()
            name = str(file.toUri().getPath()).removeprefix(f"{path.toUri().getPath()}/")
            files.copyToLocalFile(False, file, self._path(f"file:{target / name}"), True)

    def remove(self, uri: str) -> None:
        if uri.startswith("/"):
            shutil.rmtree(uri)
            return
        files, path = self._open(uri)
        files.delete(path, True)

    def _path(self, uri: str) -> Any:  # noqa: ANN401 - Hadoop's Path
        return self._jvm.org.apache.hadoop.fs.Path(uri)

    def _open(self, uri: str) -> tuple[Any, Any]:
        path = self._path(uri)
        return path.getFileSystem(self._configuration), path


@contextmanager
def running_places(rig: Rig, folder: Path, s3_port: int | None) -> Iterator[Places]:
    """Start a session, and an HDFS in its JVM.

    Args:
        rig: its class path has Hadoop's jars and the classes that count steps.
        folder: all data of this machine is below it.
        s3_port: the port of an S3 server that has ``BUCKET``, if there is one.
    """
    from authorizerd.replay.spark.session import session_builder

    classes, *jars = rig.classpath.split(os.pathsep)
    # Spark itself has the other jars, perhaps in other versions.
    of_s3 = [
        jar for jar in jars if Path(jar).name.startswith(("hadoop-aws", "bundle", "analytics"))
    ]
    of_hdfs = [jar for jar in jars if "minicluster" in Path(jar).name]
    (folder / "viewfs").mkdir(parents=True)
    places = [
        Place("viewfs", "viewfs://here/tables", {
            "spark.hadoop.fs.viewfs.mounttable.here.link./tables": (folder / "viewfs").as_uri(),
            "spark.hadoop.fs.file.impl": "authorizerd.steps.LocalSteps",
        }),
    ]  # fmt: skip
    if s3_port is not None:
        places.append(Place("s3", f"s3a://{BUCKET}/tables", {
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{s3_port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "access",
            "spark.hadoop.fs.s3a.secret.key": "secret",
        }, tuple(of_s3)))  # fmt: skip
    of_hdfs_files = {
        "spark.hadoop.fs.hdfs.impl": "authorizerd.steps.HdfsSteps",
        "spark.hadoop.fs.AbstractFileSystem.hdfs.impl": "org.apache.hadoop.fs.HdfsStepsContext",
    }
    settings = {
        **QUICK_SETTINGS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join((classes, *of_hdfs, *of_s3)),
        "spark.driver.extraJavaOptions": QUICK,
        "spark.local.dir": str(folder / "local"),
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    }
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = session_builder("conformance").master("local[1]")
    for each in (settings, of_hdfs_files, *(place.settings for place in places)):
        for key, value in each.items():
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    jvm: Any = spark.sparkContext._jvm
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    configuration.set("hdfs.minidfs.basedir", str(folder / "hdfs"))
    build = getattr(jvm.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")
    hdfs = build(configuration).numDataNodes(1).build()
    hdfs.waitActive()
    places.append(Place("hdfs", f"{hdfs.getURI().toString()}/tables", of_hdfs_files))
    try:
        yield Places(folder, spark, places, classes)
    finally:
        hdfs.shutdown()
        spark.stop()
