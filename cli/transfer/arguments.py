"""The flags of ``acls import`` and ``acls export``, and the source and target that they name.

**Invariant:** the credentials for one cluster are never sent to another. If both sides are
clusters, ``--from-config`` and ``--to-config`` name a file for each.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.cli.flags import (
    Flags,
    Refuse,
    add_config_arguments,
    add_json_argument,
    add_switch,
    add_text,
    read_request,
)
from authorizerd.cli.profile import HELP, use_profile
from authorizerd.cli.question_words import MOMENT_HELP
from authorizerd.cli.selection_flags import add_selection_flags, read_selection
from authorizerd.cli.transfer.model import Kind, Locator, LocatorError, Request, Side, parse_locator
from authorizerd.cli.zookeeper.options import add_write_arguments, read_write_options
from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.plan.selector import Selector

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


class _OwnSide(msgspec.Struct, frozen=True, kw_only=True):
    """The common flags for one side, which other commands also have, and the flags for both sides.

    Attributes:
        acls: of an export, None in an import.
        from_place, to_place: the sides; only an import has a side ``source`` instead of ``from``.
    """

    refuse: Refuse
    bootstrap_server: str | None
    log_dir: str | None
    config: Path | None
    override: tuple[str, ...]
    command_config: str | None
    from_config: str | None
    to_config: str | None
    acls: str | None = None
    source: str | None = None
    from_place: str | None = None
    to_place: str | None = None


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    _describe(parser, "Write the ACLs of a cluster, a log or a file to another place.")
    source = parser.add_argument_group(
        "where the ACLs are: one of --bootstrap-server, --log-dir, --config, --acls and --from"
    )
    _add_own_side(source, "from")
    add_text(source, "--acls", "FILE", "a file of ACLs, in a format below")
    _add_as_of(source)
    target = parser.add_argument_group("where they go")
    text = "a file, or any place listed below (default: standard output)"
    add_text(target, "--to", "PLACE", text, dest="to_place", default="-")
    _add_format(target, "of the written file (default: by its suffix, else yaml)")
    _add_target_arguments(target)
    _add_common_arguments(parser)


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    _describe(parser, "Add ACLs from another place to a cluster, a log or a file.")
    source = parser.add_argument_group("where the ACLs are")
    source.add_argument("source", metavar="FROM", help="a file, or any place listed below")
    _add_format(source, "of the input file (default: detected)")
    _add_as_of(source)
    target = parser.add_argument_group(
        "where they go: one of --bootstrap-server, --log-dir, --config and --to"
    )
    _add_own_side(target, "to")
    _add_target_arguments(target)
    _add_common_arguments(parser)


def read_export(given: argparse.Namespace) -> Request:
    """Return the task of ``acls export``. Invalid arguments exit with code 2."""
    sides, _ = use_profile(
        read_request(_OwnSide, given), "log_dir", "config", "acls", "from_place", "from_config"
    )
    refuse = sides.refuse
    source = _read_own_side(sides, sides.from_place, "--from")
    if sides.acls is not None:
        if source is not None:
            refuse("--acls: expected one source of ACLs, found two")
        source = Side(_parse(sides.acls, "--acls", refuse))
    if source is None:
        refuse(
            "expected --bootstrap-server HOST:PORT, --log-dir DIR, --config FILE, --acls FILE or "
            "--from PLACE"
        )
    target = Side(_parse(sides.to_place or "", "--to", refuse))
    return _read_request(given, sides, source, target, is_export=True)


def read_import(given: argparse.Namespace) -> Request:
    """Return the task of ``acls import``. Invalid arguments exit with code 2."""
    sides, _ = use_profile(
        read_request(_OwnSide, given), "log_dir", "config", "to_place", "to_config"
    )
    refuse = sides.refuse
    target = _read_own_side(sides, sides.to_place, "--to")
    if target is None:
        refuse("expected --bootstrap-server HOST:PORT, --log-dir DIR, --config FILE or --to PLACE")
    source = Side(_parse(sides.source or "", "FROM", refuse))
    return _read_request(given, sides, source, target, is_export=False)


def _describe(parser: argparse.ArgumentParser, description: str) -> None:
    parser.description = description
    parser.epilog = PLACES.format(
        formats="\n".join(f"  {each.name:22}  {each.help}" for each in FORMATS.values())
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(refuse=parser.error)


def _add_own_side(group: Flags, word: str) -> None:
    text = f"the brokers of a Kafka cluster, or a daemon; separate several with commas. {HELP}"
    add_text(group, "--bootstrap-server", "HOST:PORT", text)
    text = "a log directory, which contains __cluster_metadata-0, or a .checkpoint file"
    add_text(group, "--log-dir", "DIR", text)
    add_config_arguments(group, required=False)
    group.add_argument(
        f"--{word}", dest=f"{word}_place", metavar="PLACE", help="any place listed below"
    )


def _add_as_of(group: Flags) -> None:
    add_text(group, "--as-of", "MOMENT", f"with a log: its ACLs of this moment: {MOMENT_HELP}")


def _add_format(group: Flags, what: str) -> None:
    group.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT", help=f"the format {what}; see below"
    )


def _add_target_arguments(group: Flags) -> None:
    add_switch(group, "--overwrite", "replace an existing file or checkpoint")
    group.add_argument(
        "--node-id", type=int, metavar="ID", help="node.id of a new log directory, without --config"
    )
    text = "the cluster id of a new log directory (default: random)"
    add_text(group, "--cluster-id", "ID", text)


def _add_common_arguments(parser: argparse.ArgumentParser) -> None:
    clients = parser.add_argument_group("connections to clusters")
    text = (
        "a properties file with Kafka's client keys for authentication and TLS; for ZooKeeper, "
        "with a broker's zookeeper.* keys"
    )
    add_text(clients, "--command-config", "FILE", text)
    for word, place in (("from", "the ACLs come from"), ("to", "the ACLs go to")):
        text = f"the same for the cluster that {place}, if both places are clusters"
        add_text(clients, f"--{word}-config", "FILE", text)
    add_write_arguments(parser)
    add_selection_flags(parser.add_argument_group("which ACLs (default: all)"))
    text = (
        "leave out what the target cannot hold; without this flag, any loss stops the command "
        "before anything is written"
    )
    add_switch(parser, "--accept-losses", text)
    add_switch(parser, "--dry-run", "show what would be written, but write nothing")
    add_json_argument(parser)


def _parse(text: str, word: str, refuse: Refuse) -> Locator:
    try:
        return parse_locator(text, FORMATS)
    except LocatorError as error:
        refuse(f"{word}: {error}")


def _read_own_side(sides: _OwnSide, place: str | None, flag: str) -> Side | None:
    """Return the place that the common flags name; None without them."""
    refuse = sides.refuse
    named = {
        "--bootstrap-server": sides.bootstrap_server,
        "--log-dir": sides.log_dir,
        "--config": sides.config,
        flag: place,
    }
    flags = [each for each, value in named.items() if value is not None]
    if flags == ["--log-dir", "--config"]:  # as in other commands, --log-dir takes precedence
        flags.pop()
    if len(flags) > 1:
        refuse(f"{flags[1]}: expected either {flags[0]} or {flags[1]}, found both")
    if sides.override and sides.config is None:
        refuse("--override: expected --config as well")
    if sides.bootstrap_server is not None:
        return Side(Locator(Kind.CLUSTER, sides.bootstrap_server, sides.bootstrap_server))
    if sides.log_dir is not None or sides.config is not None:
        return _read_log_side(sides)
    return None if place is None else Side(_parse(place, flag, refuse))


def _read_log_side(sides: _OwnSide) -> Side:
    text = sides.log_dir or ""
    is_checkpoint = text.endswith(".checkpoint") and not Path(text).is_dir()
    kind = Kind.CHECKPOINT if is_checkpoint else Kind.LOG
    return Side(Locator(kind, text, text), server_config=sides.config, overrides=sides.override)


def _read_request(
    given: argparse.Namespace, sides: _OwnSide, source: Side, target: Side, *, is_export: bool
) -> Request:
    source, target = _add_command_configs(sides, source, target, is_export=is_export)
    request = read_request(
        Request,
        given,
        source=source,
        target=target,
        is_export=is_export,
        selects=None,
        zookeeper=read_write_options(given),
    )
    _check_target_flags(request, sides)
    _check_files(request)
    # Do this after the other checks, since it prints warnings.
    entries = read_selection(given).read_entries()
    selects = Selector(entries).manages if entries else None
    return msgspec.structs.replace(request, selects=selects)


def _check_files(request: Request) -> None:
    """End the command if the flags for files and moments do not suit the source and target."""
    refuse, source, target = request.refuse, request.source.locator, request.target.locator
    if request.as_of is not None and source.kind not in (Kind.LOG, Kind.CHECKPOINT):
        refuse(f"--as-of: expected a log, found {source.text}, which has no history")
    file = target if request.is_export else source
    if request.format is not None and file.kind is not Kind.FILE:
        refuse(f"--format: expected a file, found {file.text}")
    if None not in (request.format, file.format) and request.format != file.format:
        refuse(f"--format: {request.format}, but {file.text} names another format")
    if target.is_standard and request.json:
        refuse("--json: expected --to FILE, because standard output gets the ACLs")


def _add_command_configs(
    sides: _OwnSide, source: Side, target: Side, *, is_export: bool
) -> tuple[Side, Side]:
    refuse = sides.refuse
    configs = {"from": sides.from_config, "to": sides.to_config}
    clusters = [
        word
        for word, side in (("from", source), ("to", target))
        if side.locator.kind in (Kind.CLUSTER, Kind.ZOOKEEPER)
    ]
    for word, config in configs.items():
        if config is not None and word not in clusters:
            refuse(f"--{word}-config: expected a cluster on that side")
    if sides.command_config is not None:
        word = _find_meant_side(sides, clusters, is_export=is_export)
        if configs[word] is not None:
            refuse(f"--command-config: expected either this flag or --{word}-config, found both")
        configs[word] = sides.command_config
    replace = msgspec.structs.replace
    return (
        replace(source, command_config=configs["from"]),
        replace(target, command_config=configs["to"]),
    )


def _find_meant_side(sides: _OwnSide, clusters: list[str], *, is_export: bool) -> str:
    """Return ``--command-config``'s side: that of ``--bootstrap-server``, or the only cluster."""
    if len(clusters) == 1:
        return clusters[0]
    if not clusters:
        sides.refuse(
            "--command-config: expected a cluster: --bootstrap-server or kafka://HOST:PORT"
        )
    if sides.bootstrap_server is None:
        sides.refuse(
            "--command-config: both places are clusters: use --from-config and --to-config"
        )
    return "from" if is_export else "to"


def _check_target_flags(request: Request, sides: _OwnSide) -> None:
    target, refuse, node_id = request.target.locator, request.refuse, request.node_id
    if request.overwrite and (
        target.is_standard or target.kind not in (Kind.FILE, Kind.CHECKPOINT)
    ):
        refuse(f"--overwrite: expected a file, found {target.text}: ACLs are added there")
    for flag, value in (("--node-id", node_id), ("--cluster-id", request.cluster_id)):
        if value is not None and target.kind is not Kind.LOG:
            refuse(f"{flag}: expected a log directory as the target, found {target.text}")
    if target.kind is not Kind.ZOOKEEPER:
        for flag in request.zookeeper.flags:
            refuse(f"{flag}: expected zookeeper://HOST:PORT as the target, found {target.text}")
    if node_id is not None and not 0 <= node_id <= NODE_ID_MAX:
        refuse(f"--node-id: expected 0 to {NODE_ID_MAX}, found {node_id}")
    if node_id is not None and sides.config is not None and not request.is_export:
        refuse("--node-id: expected either --config or --node-id, found both")
