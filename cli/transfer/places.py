"""Create the source and the target that a user names.

The modules for clusters are imported only if a side is a cluster: Kafka's message definitions take
longer to load than the rest of a command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, assert_never

from authorizerd.cli.configuration_file import read_configuration
from authorizerd.cli.errors import CommandError
from authorizerd.cli.question_words import read_moment
from authorizerd.cli.transfer.model import Kind, Locator, Request, Side, Source, Target
from authorizerd.config.configuration import Configuration
from authorizerd.management.formats.catalogue import FORMAT_NAMES, FORMATS
from authorizerd.management.formats.model import Format

BY_ENDING: Final = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".tf.json": "terraform",
    ".json": "json",
    ".txt": "listing",
    ".list": "listing",
    ".csv": "csv",
}
"""The default format of a written file, by the end of its name."""
STANDARD_FORMAT: Final = "yaml"


def open_source(request: Request) -> Source:
    side = request.source
    match side.locator.kind:
        case Kind.FILE:
            from authorizerd.cli.transfer.text_place import TextSource

            return TextSource(side.locator, None if request.is_export else request.format)
        case Kind.LOG | Kind.CHECKPOINT:
            from authorizerd.cli.transfer.log_place import LogSource

            as_of = read_moment(request.as_of, "--as-of", request.refuse)
            return LogSource(_find_log_dir(side, _read_configuration(side)), as_of)
        case Kind.CLUSTER:
            from authorizerd.cli.transfer.cluster_place import ClusterPlace

            return ClusterPlace(side.locator.value, side.command_config, side.locator.text)
        case Kind.ZOOKEEPER:
            from authorizerd.cli.zookeeper.places import ZooKeeperSource

            return ZooKeeperSource(*_describe_zookeeper(side))
        case _:
            assert_never(side.locator.kind)


def open_target(request: Request) -> Target:
    """Return the target. Nothing is read or written yet."""
    side = request.target
    locator = side.locator
    match locator.kind:
        case Kind.FILE:
            from authorizerd.cli.transfer.text_place import TextTarget

            written = _find_format(locator, request.format if request.is_export else None)
            return TextTarget(locator, written, overwrite=request.overwrite)
        case Kind.CHECKPOINT:
            from authorizerd.cli.transfer.log_place import CheckpointTarget

            return CheckpointTarget(locator.path, overwrite=request.overwrite)
        case Kind.LOG:
            return _open_log(request, side)
        case Kind.CLUSTER:
            from authorizerd.cli.transfer.cluster_place import ClusterPlace

            return ClusterPlace(locator.value, side.command_config, locator.text)
        case Kind.ZOOKEEPER:
            from authorizerd.cli.zookeeper.places import ZooKeeperTarget

            return ZooKeeperTarget(*_describe_zookeeper(side), request.zookeeper)
        case _:
            assert_never(locator.kind)


def _open_log(request: Request, side: Side) -> Target:
    from authorizerd.cli.transfer.log_place import LogTarget

    configuration = _read_configuration(side)
    if configuration is None:
        return LogTarget(side.locator.path, node_id=request.node_id, cluster_id=request.cluster_id)
    if configuration.follow is not None:
        raise CommandError(
            f"{side.server_config}: this configuration follows a cluster: import into the cluster "
            "itself, with --bootstrap-server"
        )
    return LogTarget(
        _find_log_dir(side, configuration),
        node_id=configuration.node_id,
        cluster_id=request.cluster_id,
        segment_bytes_max=configuration.metadata_log_segment_bytes,
    )


def _read_configuration(side: Side) -> Configuration | None:
    if side.server_config is None:
        return None
    return read_configuration(side.server_config, side.overrides)


def _find_log_dir(side: Side, configuration: Configuration | None) -> Path:
    """Return the path on the command line, or else the log directory of the configuration."""
    if side.locator.value or configuration is None:
        return side.locator.path
    return Path(configuration.metadata_log_dir)


def _find_format(locator: Locator, given: str | None) -> Format:
    name = locator.format or given
    if name is None and locator.is_standard:
        name = STANDARD_FORMAT
    if name is None:
        file = locator.path.name
        name = next((BY_ENDING[each] for each in BY_ENDING if file.endswith(each)), None)
    if name is None:
        raise CommandError(
            f"{locator.text}: expected a format: use FORMAT:{locator.value} with one of "
            f"{FORMAT_NAMES}, or log:{locator.value} for a log directory"
        )
    return FORMATS[name]


def _describe_zookeeper(side: Side) -> tuple[str, Path | None, str]:
    config = None if side.command_config is None else Path(side.command_config)
    return side.locator.value, config, side.locator.text
