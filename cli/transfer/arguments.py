"""The flags of ``acls import`` and ``acls export``, and the two places that they name.

**Invariant:** the credentials for one cluster are never sent to another one. If both sides are
clusters, ``--from-config`` and ``--to-config`` say which is for which.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import msgspec

from authorizerd.acl.formats.catalogue import FORMATS
from authorizerd.acl.model import Acl
from authorizerd.cli.configuration_file import add_config_arguments
from authorizerd.cli.profile import HELP, use_profile
from authorizerd.cli.question_words import MOMENT_HELP
from authorizerd.cli.questions.answers import add_json_argument
from authorizerd.cli.selection_flags import add_selection_flags
from authorizerd.cli.transfer.locator import Kind, Locator, LocatorError, parse_locator
from authorizerd.cli.transfer.selection import read_selection
from authorizerd.cli.zookeeper.options import (
    WriteOptions,
    add_write_arguments,
    read_write_options,
)

Refuse: TypeAlias = Callable[[str], NoReturn]

NODE_ID_MAX: Final = 2**31 - 1

PLACES: Final = """\
A place is one of:
  kafka://HOST:PORT,...   a cluster, or a daemon
  zookeeper://HOST:PORT,.../CHROOT
                          a cluster that keeps its ACLs in ZooKeeper
  DIR, DIR/ or log:DIR    a log directory, which contains __cluster_metadata-0
  FILE.checkpoint         a checkpoint of a log
  FILE or FORMAT:FILE     a file of ACLs
  - or FORMAT:-           standard input or standard output

A format is one of:
{formats}
"""


class Side(msgspec.Struct, frozen=True):
    """One of the two places.

    Attributes:
        command_config: the file with the settings of a client, for a cluster.
        server_config, overrides: the configuration whose log directory it is, or None.
    """

    locator: Locator
    command_config: str | None = None
    server_config: Path | None = None
    overrides: tuple[str, ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a user.

    Attributes:
        format: of the file, in an export that of the target, in an import that of the source.
        selects: whether an ACL is selected; None if all are.
        zookeeper: what is stated about a target in ZooKeeper.
    """

    source: Side
    target: Side
    is_export: bool
    format: str | None
    as_of: str | None
    node_id: int | None
    cluster_id: str | None
    overwrite: bool
    accept_losses: bool
    dry_run: bool
    as_json: bool
    selects: Callable[[Acl], bool] | None
    zookeeper: WriteOptions
    refuse: Refuse


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``acls export``. ``read_export`` reads them."""
    _describe(parser, "Write the ACLs of a cluster, a log or a file to another place.")
    source = parser.add_argument_group(
        "where the ACLs are: one of --bootstrap-server, --log-dir, --config, --acls and --from"
    )
    _add_own_side(source, "from")
    source.add_argument("--acls", metavar="FILE", help="a file of ACLs, in a format below")
    source.add_argument(
        "--as-of", metavar="MOMENT", help=f"with a log: its ACLs of this moment: {MOMENT_HELP}"
    )
    target = parser.add_argument_group("where they go")
    target.add_argument(
        "--to",
        dest="to_place",
        default="-",
        metavar="PLACE",
        help="a file, or any other place of those below (default: standard output)",
    )
    _add_format(target, "of the file that is written (default: by its suffix, else yaml)")
    _add_target_arguments(target)
    _add_common_arguments(parser)


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``acls import``. ``read_import`` reads them."""
    _describe(parser, "Add ACLs of another place to a cluster, a log or a file.")
    source = parser.add_argument_group("where the ACLs are")
    source.add_argument("source", metavar="FROM", help="a file, or any other place of those below")
    _add_format(source, "of the file that is read (default: detected)")
    source.add_argument(
        "--as-of", metavar="MOMENT", help=f"with a log: its ACLs of this moment: {MOMENT_HELP}"
    )
    target = parser.add_argument_group(
        "where they go: one of --bootstrap-server, --log-dir, --config and --to"
    )
    _add_own_side(target, "to")
    _add_target_arguments(target)
    _add_common_arguments(parser)


def read_export(given: argparse.Namespace) -> Request:
    """Return what ``acls export`` is to do. Invalid arguments exit with code 2.

    Raises as ``use_profile``.
    """
    refuse: Refuse = given.refuse
    use_profile(given, "log_dir", "config", "acls", "from_place", "from_config")
    source = _read_own_side(given, given.from_place, "--from", "source")
    if given.acls is not None:
        if source is not None:
            refuse("--acls: expected one place of ACLs, found two")
        source = Side(_parse(given.acls, "--acls", refuse))
    if source is None:
        refuse(
            "expected --bootstrap-server HOST:PORT, --log-dir DIR, --config FILE, --acls FILE or "
            "--from PLACE"
        )
    target = Side(_parse(given.to_place, "--to", refuse))
    return _read_request(given, source, target, is_export=True)


def read_import(given: argparse.Namespace) -> Request:
    """Return what ``acls import`` is to do. Invalid arguments exit with code 2.

    Raises as ``use_profile``.
    """
    refuse: Refuse = given.refuse
    use_profile(given, "log_dir", "config", "to_place", "to_config")
    target = _read_own_side(given, given.to_place, "--to", "target")
    if target is None:
        refuse("expected --bootstrap-server HOST:PORT, --log-dir DIR, --config FILE or --to PLACE")
    source = Side(_parse(given.source, "FROM", refuse))
    return _read_request(given, source, target, is_export=False)


def _describe(parser: argparse.ArgumentParser, description: str) -> None:
    parser.description = description
    parser.epilog = PLACES.format(
        formats="\n".join(f"  {each.name:22}  {each.help}" for each in FORMATS.values())
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(refuse=parser.error)


def _add_own_side(group: argparse._ArgumentGroup, word: str) -> None:
    group.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"the brokers of a Kafka cluster, or a daemon; separate several with commas. {HELP}",
    )
    group.add_argument(
        "--log-dir",
        metavar="DIR",
        help="a log directory, which contains __cluster_metadata-0, or a .checkpoint file",
    )
    add_config_arguments(group, required=False)
    group.add_argument(
        f"--{word}", dest=f"{word}_place", metavar="PLACE", help="any place of those below"
    )


def _add_format(group: argparse._ArgumentGroup, what: str) -> None:
    group.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT", help=f"the format {what}; see below"
    )


def _add_target_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--overwrite", action="store_true", help="replace a file or checkpoint that exists"
    )
    group.add_argument(
        "--node-id", type=int, metavar="ID", help="node.id of a new log directory, without --config"
    )
    group.add_argument(
        "--cluster-id", metavar="ID", help="the cluster id of a new log directory (default: random)"
    )


def _add_common_arguments(parser: argparse.ArgumentParser) -> None:
    clients = parser.add_argument_group("connections to clusters")
    clients.add_argument(
        "--command-config",
        metavar="FILE",
        help="a properties file with Kafka's client keys for the log-in and TLS; for ZooKeeper, "
        "with a broker's zookeeper.* keys",
    )
    for word, place in (("from", "the ACLs come from"), ("to", "the ACLs go to")):
        clients.add_argument(
            f"--{word}-config",
            metavar="FILE",
            help=f"the same for the cluster that {place}, if both places are clusters",
        )
    add_write_arguments(parser)
    add_selection_flags(parser.add_argument_group("which ACLs (default: all)"))
    parser.add_argument(
        "--accept-losses",
        action="store_true",
        help="leave out what the other place cannot hold; without it, any loss stops the command "
        "before anything is written",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be written, and write nothing"
    )
    add_json_argument(parser)


def _parse(text: str, word: str, refuse: Refuse) -> Locator:
    try:
        return parse_locator(text, FORMATS)
    except LocatorError as error:
        refuse(f"{word}: {error}")


def _read_own_side(
    given: argparse.Namespace, place: str | None, flag: str, side: str
) -> Side | None:
    """Return the place that the flags name, which other commands have too; None without them."""
    refuse: Refuse = given.refuse
    named = {
        "--bootstrap-server": given.bootstrap_server,
        "--log-dir": given.log_dir,
        "--config": given.config,
        flag: place,
    }
    flags = [each for each, value in named.items() if value is not None]
    if flags == ["--log-dir", "--config"]:  # as in other commands, --log-dir takes precedence
        flags.pop()
    if len(flags) > 1:
        refuse(f"{flags[1]}: expected either {flags[0]} or {flags[1]}, found both")
    if given.override and given.config is None:
        refuse("--override: expected --config as well")
    if given.bootstrap_server is not None:
        return Side(Locator(Kind.CLUSTER, given.bootstrap_server, given.bootstrap_server))
    if given.log_dir is not None or given.config is not None:
        return _read_log_side(given)
    return None if place is None else Side(_parse(place, flag, refuse))


def _read_log_side(given: argparse.Namespace) -> Side:
    text = given.log_dir or ""
    is_checkpoint = text.endswith(".checkpoint") and not Path(text).is_dir()
    kind = Kind.CHECKPOINT if is_checkpoint else Kind.LOG
    return Side(
        Locator(kind, text, text), server_config=given.config, overrides=tuple(given.override)
    )


def _read_request(
    given: argparse.Namespace, source: Side, target: Side, *, is_export: bool
) -> Request:
    refuse: Refuse = given.refuse
    source, target = _add_command_configs(given, source, target)
    _check_target_flags(given, target.locator, refuse)
    _check_source_flags(given, source, refuse)
    file = target.locator if is_export else source.locator
    if given.format is not None and file.kind is not Kind.FILE:
        refuse(f"--format: expected a file, found {file.text}")
    if None not in (given.format, file.format) and given.format != file.format:
        refuse(f"--format: {given.format}, but {file.text} names another format")
    if target.locator.is_standard and given.json:
        refuse("--json: expected --to FILE, because standard output gets the ACLs")
    return Request(
        source=source,
        target=target,
        is_export=is_export,
        format=given.format,
        as_of=given.as_of,
        node_id=given.node_id,
        cluster_id=given.cluster_id,
        overwrite=given.overwrite,
        accept_losses=given.accept_losses,
        dry_run=given.dry_run,
        as_json=given.json,
        selects=read_selection(given),
        zookeeper=read_write_options(given),
        refuse=refuse,
    )


def _add_command_configs(
    given: argparse.Namespace, source: Side, target: Side
) -> tuple[Side, Side]:
    """Return the sides with the settings of their clients."""
    refuse: Refuse = given.refuse
    configs = {"from": given.from_config, "to": given.to_config}
    clusters = [
        word
        for word, side in (("from", source), ("to", target))
        if side.locator.kind in (Kind.CLUSTER, Kind.ZOOKEEPER)
    ]
    for word, config in configs.items():
        if config is not None and word not in clusters:
            refuse(f"--{word}-config: expected a cluster on that side")
    if given.command_config is not None:
        word = _find_meant_side(given, clusters)
        if configs[word] is not None:
            refuse(f"--command-config: expected either it or --{word}-config, found both")
        configs[word] = given.command_config
    replace = msgspec.structs.replace
    return (
        replace(source, command_config=configs["from"]),
        replace(target, command_config=configs["to"]),
    )


def _find_meant_side(given: argparse.Namespace, clusters: list[str]) -> str:
    """Return the side that ``--command-config`` is for: that of ``--bootstrap-server``, or the only
    cluster.
    """
    if len(clusters) == 1:
        return clusters[0]
    refuse: Refuse = given.refuse
    if not clusters:
        refuse("--command-config: expected a cluster: --bootstrap-server or kafka://HOST:PORT")
    if given.bootstrap_server is None:
        refuse("--command-config: both places are clusters: use --from-config and --to-config")
    return "to" if "source" in given else "from"


def _check_target_flags(given: argparse.Namespace, target: Locator, refuse: Refuse) -> None:
    if given.overwrite and (target.is_standard or target.kind not in (Kind.FILE, Kind.CHECKPOINT)):
        refuse(f"--overwrite: expected a file, found {target.text}: ACLs are added there")
    for flag, value in (("--node-id", given.node_id), ("--cluster-id", given.cluster_id)):
        if value is not None and target.kind is not Kind.LOG:
            refuse(f"{flag}: expected a log directory as the target, found {target.text}")
    if target.kind is not Kind.ZOOKEEPER:
        for flag in read_write_options(given).flags:
            refuse(f"{flag}: expected zookeeper://HOST:PORT as the target, found {target.text}")
    if given.node_id is not None and not 0 <= given.node_id <= NODE_ID_MAX:
        refuse(f"--node-id: expected 0 to {NODE_ID_MAX}, found {given.node_id}")
    if given.node_id is not None and given.config is not None and "source" in given:
        refuse("--node-id: expected either --config or --node-id, found both")


def _check_source_flags(given: argparse.Namespace, source: Side, refuse: Refuse) -> None:
    if given.as_of is not None and source.locator.kind not in (Kind.LOG, Kind.CHECKPOINT):
        refuse(f"--as-of: expected a log, found {source.locator.text}, which has no past")
