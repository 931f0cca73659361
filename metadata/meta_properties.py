"""``meta.properties``: which cluster and node a log directory belongs to.

Source: Kafka 4.3 MetaProperties, MetaPropertiesEnsemble (version 1, KRaft).
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from metadata.directory import METADATA_TOPIC_DIRECTORY
from metadata.errors import LogDirectoryError
from metadata.storage import Storage

NAME: Final = "meta.properties"
VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    directory_id: str


def read_meta_properties(log_dir: Path) -> MetaProperties | None:
    """Return what the directory says of itself, None where it says nothing.

    Raises:
        LogDirectoryError: the file cannot be read, or says something else.
    """
    path = log_dir / NAME
    try:
        lines = path.read_text(encoding="iso-8859-1").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error
    values: dict[str, str] = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            key, _, value = line.partition("=")
            values[key.strip()] = value.strip().replace("\\", "")
    if values.get("version") != VERSION:
        raise LogDirectoryError(f"{path}: version is {values.get('version')}, only 1 is known")
    try:
        return MetaProperties(
            values["cluster.id"], int(values["node.id"]), values.get("directory.id", "")
        )
    except KeyError as error:
        raise LogDirectoryError(f"{path}: {error.args[0]} is missing") from None
    except ValueError:
        raise LogDirectoryError(f"{path}: node.id is no number") from None


def format_directory(log_dir: Path, properties: MetaProperties, storage: Storage) -> None:
    """Make an empty log directory, whose log a first start begins.

    Raises:
        LogDirectoryError: it is formatted already, holds a log, or cannot be written.
    """
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    try:
        if (log_dir / NAME).exists() or directory.exists():
            raise LogDirectoryError(f"{log_dir}: is formatted already")
        made = [path for path in (directory, *directory.parents) if not path.exists()]
        directory.mkdir(parents=True)
        for path in made:
            storage.sync_directory(path.parent)
    except OSError as error:
        raise LogDirectoryError(f"{log_dir}: {error.strerror or error}") from error
    write_meta_properties(log_dir, properties, storage)


def write_meta_properties(log_dir: Path, properties: MetaProperties, storage: Storage) -> None:
    """Write the file, where there is none, whole or not at all.

    Raises:
        LogDirectoryError: it cannot be written.
    """
    path = log_dir / NAME
    part = path.with_name(f"{NAME}.part")
    try:
        with suppress(FileNotFoundError):
            storage.remove(part)
        with closing(storage.append_to(part)) as file:
            file.append([_encoded(properties)])
            file.sync()
        storage.rename(part, path)
        storage.sync_directory(log_dir)
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error


def _encoded(properties: MetaProperties) -> bytes:
    return (
        f"version={VERSION}\n"
        f"cluster.id={properties.cluster_id}\n"
        f"node.id={properties.node_id}\n"
        f"directory.id={properties.directory_id}\n"
    ).encode("iso-8859-1")
