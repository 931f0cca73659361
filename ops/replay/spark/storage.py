"""Whole files that only Spark reaches: in HDFS or S3, or on the machine of a Connect server.

The driver asks Hadoop's file systems. A session of Spark Connect has no driver here, so a task on
the server's machine works on the files of that machine.

**Invariant:** see ``plain_files``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow
from pyspark.sql import SparkSession

from authorizerd.replay.errors import JobError
from authorizerd.replay.plain_files import (
    FILE_URI,
    HalfWrittenError,
    LocalFiles,
    Storage,
    check_size,
    find_asides,
    find_part,
    name_aside,
)
from authorizerd.replay.spark.failures import SPARK_ERRORS
from authorizerd.replay.spark.listing import escape_glob, list_files, local_path, naming
from authorizerd.replay.spark.session import is_remote

_RENAMES: Final = ("hdfs",)
"""The schemes whose rename is atomic and never replaces a file."""
_CONDITIONAL: Final = ("s3a",)
"""The schemes where a file can be created under the condition that it does not exist."""
_IF_NEW: Final = "fs.option.create.conditional.overwrite"
_SIGNS_OF_RENAMED: Final = ("FileAlreadyExistsException", "FileNotFoundException")
_SIGNS_OF_CONFLICT: Final = ("AlreadyExists", "PreconditionFailed", "Status Code: 412")


def open_storage(spark: SparkSession, uri: str) -> Storage:
    """Return the storage in which ``uri`` is."""
    if local_path(spark, uri) is not None:
        return LocalFiles()
    if not is_remote(spark):
        return HadoopFiles(spark)
    return SparkFiles(spark) if FILE_URI.fullmatch(uri) is None else ServerFiles(spark)


class HadoopFiles:
    """The files that the driver's JVM reaches: HDFS, S3, and file systems mounted by viewfs."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._gateway: Any = context._gateway
        self._jvm: Any = context._jvm
        self._configuration: Any = context._jsc.hadoopConfiguration()

    def names(self, folder: str) -> list[str]:
        with naming(folder):
            files, path = self._open(folder)
            if not files.exists(path):
                return []
            return [each.getPath().getName() for each in files.listStatus(path)]

    def read(self, uri: str) -> bytes:
        with naming(uri):
            files, path = self._open(uri)
            if not files.exists(path):
                raise FileNotFoundError(f"{uri} does not exist")
            if files.getFileStatus(path).isDirectory():
                path = self._below(path, find_part(uri, self.names(uri)))
            check_size(uri, files.getFileStatus(path).getLen())
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def check_creates(self, uri: str) -> None:
        scheme = self._resolve(uri)[0]
        if scheme not in ("file", *_RENAMES, *_CONDITIONAL):
            known = ", ".join(("file", *_RENAMES, *_CONDITIONAL))
            raise JobError(
                f"--out: {uri}: a commit cannot be created in one step on {scheme}, so two runs "
                f"could damage the table: use one of {known}"
            )
        # Another run may remove the file of an attempt, because it takes it for left behind.
        if scheme in _CONDITIONAL and not any(self._is_condition_met(uri) for _ in range(3)):
            raise JobError(
                f"--out: {uri}: expected a store that creates an object only if it does not exist "
                "(If-None-Match), found one that replaced it: two runs could damage the table. "
                "Update the store, or use another one"
            )

    def _is_condition_met(self, uri: str) -> bool:
        """Create an object twice, and return True if this fails the second time."""
        with naming(uri):
            files, path = self._open(uri)
            place = self._below(path.getParent(), name_aside(path.getName()))
            created = [self._create_if_new(files, place, b"probe") for _ in range(2)]
            files.delete(place, False)
        return created == [True, False]

    def create(self, uri: str, data: bytes) -> bool:
        scheme, resolved = self._resolve(uri)
        if scheme == "file":
            return LocalFiles().create(resolved, data)
        with naming(uri):
            files, path = self._open(uri)
            if scheme in _CONDITIONAL:
                is_created = self._create_if_new(files, path, data)
            else:
                aside = self._below(path.getParent(), name_aside(path.getName()))
                self._write(files, aside, data)
                is_created = self._rename(aside, path)
            for name in find_asides(self.names(str(path.getParent())), path.getName()):
                files.delete(self._below(path.getParent(), name), False)
        return is_created or self.read(uri) == data

    def replace(self, uri: str, data: bytes) -> None:
        scheme, resolved = self._resolve(uri)
        if scheme == "file":  # Hadoop would add a checksum, which other writers do not know
            LocalFiles().replace(resolved, data)
            return
        with naming(uri):
            files, path = self._open(uri)
            if files.exists(path) and files.getFileStatus(path).isDirectory():
                files.delete(path, True)
            self._write(files, path, data)

    def remove(self, uri: str) -> None:
        with naming(uri):
            files, path = self._open(uri)
            files.delete(path, True)

    def is_occupied(self, uri: str) -> bool:
        with naming(uri):
            files, path = self._open(uri)
            if not files.exists(path):
                return False
            return not files.getFileStatus(path).isDirectory() or len(files.listStatus(path)) > 0

    def _open(self, uri: str) -> tuple[Any, Any]:
        """Return the file system, and the path in it."""
        path = self._jvm.org.apache.hadoop.fs.Path(uri)
        return path.getFileSystem(self._configuration), path

    def _below(self, folder: Any, name: str) -> Any:  # noqa: ANN401 - Hadoop's Path
        return self._jvm.org.apache.hadoop.fs.Path(folder, name)

    def _resolve(self, uri: str) -> tuple[str, str]:
        """Return the scheme that a file is stored by, and its URI there: viewfs has mounts."""
        with naming(uri):
            files, path = self._open(uri)
            folder = path.getParent()
            files.mkdirs(folder)
            resolved = files.resolvePath(folder)
            scheme = resolved.toUri().getScheme()
            return str(scheme), f"{resolved.toString().rstrip('/')}/{path.getName()}"

    def _write(self, files: Any, path: Any, data: bytes) -> None:  # noqa: ANN401 - Hadoop's
        stream = files.create(path, True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def _rename(self, source: Any, target: Any) -> bool:  # noqa: ANN401 - Hadoop's Path
        """Rename a file unless the target exists; see ``_RENAMES``."""
        hadoop = self._jvm.org.apache.hadoop.fs
        renaming = getattr(hadoop, "Options$Rename")
        options = self._gateway.new_array(renaming, 1)
        options[0] = renaming.NONE
        context = hadoop.FileContext.getFileContext(target.toUri(), self._configuration)
        try:
            context.rename(source, target, options)
        except SPARK_ERRORS as error:
            # Perhaps another run has created the target, and removed the source as left behind.
            if not any(sign in str(error) for sign in _SIGNS_OF_RENAMED):
                raise
            return False
        return True

    def _create_if_new(self, files: Any, path: Any, data: bytes) -> bool:  # noqa: ANN401
        """Create an object by a request that the store rejects if the object exists."""
        stream = None
        try:
            stream = files.createFile(path).overwrite(True).must(_IF_NEW, True).build()
            stream.write(bytearray(data))
            stream.close()
        except SPARK_ERRORS as error:
            if not any(sign in str(error) for sign in _SIGNS_OF_CONFLICT):
                raise
            return False
        return True


class ServerFiles(LocalFiles):
    """The files of the machine on which a server of Spark Connect runs its tasks.

    Each call is a task there, which calls the same method. A disk that several machines share works
    as well.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def names(self, folder: str) -> list[str]:
        return msgspec.msgpack.decode(self._call("names", folder), type=list[str])

    def read(self, uri: str) -> bytes:
        return msgspec.msgpack.decode(self._call("read", uri), type=bytes)

    def create(self, uri: str, data: bytes) -> bool:
        return msgspec.msgpack.decode(self._call("create", uri, data), type=bool)

    def replace(self, uri: str, data: bytes) -> None:
        self._call("replace", uri, data)

    def remove(self, uri: str) -> None:
        self._call("remove", uri)

    def is_occupied(self, uri: str) -> bool:
        return msgspec.msgpack.decode(self._call("is_occupied", uri), type=bool)

    def _call(self, method: str, uri: str, *data: bytes) -> bytes:
        with naming(uri):
            order = self._spark.createDataFrame([(method, uri, *data)])
            answers = order.coalesce(1).mapInArrow(_carry_out, "answer binary, error string")
            [row] = answers.collect()
        if row.error:
            raise _MISSING[row.error](bytes(row.answer).decode())
        return bytes(row.answer)


_MISSING: Final = {each.__name__: each for each in (FileNotFoundError, HalfWrittenError)}


def _carry_out(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Call the method of ``LocalFiles`` that each row names."""
    for batch in batches:
        for method, uri, *data in zip(*(column.to_pylist() for column in batch), strict=True):
            missing = ""
            try:
                answer = msgspec.msgpack.encode(getattr(LocalFiles(), method)(uri, *data))
            except FileNotFoundError as error:
                answer, missing = str(error).encode(), type(error).__name__
            yield pyarrow.RecordBatch.from_pylist([{"answer": answer, "error": missing}])


class SparkFiles:
    """Files elsewhere, for a session of Spark Connect, which has no driver here.

    Spark reads them, and writes a text as a directory with one part file. It cannot create a file
    under the condition that there is none, so no table can be written there.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def names(self, folder: str) -> list[str]:
        # A file of Spark is a directory with one part file: NAME/part-….
        paths = (file.path for file in list_files(self._spark, escape_glob(folder)))
        return [name for path in paths for name in path.rsplit("/", 2)[1:]]

    def read(self, uri: str) -> bytes:
        parts = list_files(self._spark, escape_glob(uri))
        if not parts:
            raise FileNotFoundError(f"{uri} does not exist")
        first = min(parts, key=lambda part: (part.modified_ms, part.path))
        check_size(uri, first.length)
        with naming(uri):
            (row,) = self._spark.read.format("binaryFile").load(escape_glob(first.path)).collect()
        return bytes(row.content)

    def check_creates(self, uri: str) -> None:
        raise JobError(
            f"--out: {uri}: with Spark Connect, a commit can be created in one step only on a disk"
            " of the server, as file:///…: use such a path, or --master"
        )

    def create(self, uri: str, data: bytes) -> bool:
        self.check_creates(uri)
        raise AssertionError("check_creates raises")

    def replace(self, uri: str, data: bytes) -> None:
        self._write(uri, [(data.decode().removesuffix("\n"),)])

    def remove(self, uri: str) -> None:
        """Remove the content. An empty text remains."""
        if self.is_occupied(uri):
            self._write(uri, [])

    def is_occupied(self, uri: str) -> bool:
        return bool(list_files(self._spark, escape_glob(uri)))

    def _write(self, uri: str, rows: list[tuple[str]]) -> None:
        with naming(uri):
            text = self._spark.createDataFrame(rows, "value string").coalesce(1)
            text.write.mode("overwrite").text(uri)
