"""Where the ACLs are: the flags of every command that answers questions about ACLs.

``add_source_arguments`` adds the flags, and ``open_source`` reads the ACLs, the settings that
decisions depend on, and the names of topics that exist.

**Invariant:** each setting has its origin (``source_settings``), because a daemon or a broker with
other settings may decide differently.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import msgspec

from authorizerd.acl.as_of import Moment
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.formats.catalogue import FORMAT_NAMES
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.release_in_force import Evidence
from authorizerd.acl.releases import RULES, Release
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from authorizerd.cli.acl_file import build_snapshot, is_log, read_acl_file
from authorizerd.cli.configuration_file import (
    add_broker_arguments,
    add_config_arguments,
    add_log_dir_argument,
    read_configuration,
)
from authorizerd.cli.offline import read_log
from authorizerd.cli.profile import Profile, use_profile
from authorizerd.cli.question_words import MOMENT_HELP, Refuse, read_moment, warn_of
from authorizerd.cli.source_settings import (
    USE_CONFIG,
    Setting,
    add_setting_arguments,
    apply_flags,
    apply_profile,
    check_authorizer,
    check_flags,
    describe_settings,
    find_setting_hints,
    parse_settings,
    read_broker_settings,
    read_file_settings,
)
from authorizerd.config.configuration import Configuration
from authorizerd.config.errors import InvalidValueError


class Place(StrEnum):
    """The kind of place that the ACLs were read from."""

    LOG = "log"
    CHECKPOINT = "checkpoint"
    FILE = "file"
    BROKERS = "brokers"


class AclSource(msgspec.Struct, frozen=True):
    """The ACLs, and what else the answers depend on.

    Attributes:
        settings: what is known of them: a broker, a log and a file of ACLs hide them.
        stated: the settings as text, each with its origin; ``settings`` has the same values.
        topics: the names of all topics that are known to exist, sorted. A log knows them if a
            broker or a follower of a quorum wrote it. A broker tells those that the caller may
            describe.
        place: what kind of place ``name`` is.
        name: a path, or the addresses of brokers.
        offset: the log offset of the ACLs; None if a broker or a file lists them.
        moment: the moment in the past that --as-of names; None without it.
        caller: the principal that the command logged in as at a broker; None if it is not known.
    """

    snapshot: AclSnapshot
    settings: KnownSettings
    stated: tuple[Setting, ...]
    topics: tuple[str, ...]
    place: Place
    name: str
    offset: int | None
    moment: Moment | None = None
    caller: str | None = None

    def describe(self) -> Iterator[str]:
        """Yield the lines that end an answer: which ACLs these are, and the settings."""
        yield self.describe_acls()
        yield self.describe_settings()

    def describe_acls(self) -> str:
        """Return a line that says which ACLs these are, and how many."""
        acls = count_of(len(self.snapshot.acls), "ACL")
        if self.offset is None:
            return f"as listed by {self.name}, with {acls}"
        if self.moment is None:
            return f"at log offset {self.offset}, with {acls}"
        return f"as of {self.moment}, with {acls}; the settings are today's"

    def describe_settings(self) -> str:
        """Return a line with each setting and its origin."""
        return describe_settings(self.stated, "" if self.place is Place.BROKERS else USE_CONFIG)


class LogPlace(msgspec.Struct, frozen=True):
    """Where a log is, and the settings that apply; see ``AclSource``."""

    path: Path
    settings: KnownSettings
    stated: tuple[Setting, ...]
    evidence: Evidence | None = None
    release: Release | None = None

    def describe_settings(self) -> str:
        """Return the line about the settings that ends an answer."""
        return describe_settings(self.stated, USE_CONFIG)


class BrokerAnswer(msgspec.Struct, frozen=True):
    """What brokers tell about their ACLs.

    Attributes:
        values: the values of the settings that are set on the broker. None: the broker does not
            show the value.
        failure: why no value is known; an empty text if the broker told all that are set.
        user: the name that the client logged in with, or None.
    """

    snapshot: AclSnapshot
    topics: tuple[str, ...]
    values: Mapping[str, str | None]
    failure: str = ""
    user: str | None = None


ReadBrokers: TypeAlias = Callable[[str, str | None], BrokerAnswer]
"""Read the ACLs of the brokers at these addresses, with this ``--command-config`` file."""


def add_source_arguments(parser: argparse.ArgumentParser, read_brokers: ReadBrokers) -> None:
    """Add the flags that say where the ACLs are, and which settings apply.

    Args:
        read_brokers: ``broker_acls.read_brokers``, imported once it is called: it loads Kafka's
            message definitions, which take longer to load than the rest of a command.
    """
    parser.set_defaults(read_brokers=read_brokers, refuse=parser.error)
    group = parser.add_argument_group(
        "where the ACLs are: one of --log-dir, --acls, --config and --bootstrap-server"
    )
    add_log_dir_argument(group)
    group.add_argument(
        "--acls",
        type=Path,
        metavar="FILE",
        help=f"a file of ACLs in one of the formats {FORMAT_NAMES} (acls export --help explains "
        "them); with --config, instead of the log directory of that configuration",
    )
    add_config_arguments(group, required=False)
    group.add_argument(
        "--as-of",
        metavar="MOMENT",
        help=f"answer by the ACLs of this moment: {MOMENT_HELP}. It needs --log-dir or --config",
    )
    add_broker_arguments(group, "Listing ACLs needs DESCRIBE on the cluster")
    group.add_argument(
        "--kafka-release",
        type=Release,
        choices=tuple(Release),
        help="answer by the rules of this Kafka release: 4.3 means 4.0 to 4.3 (default: the one "
        "that the log, the configuration or the brokers show; else by each that may judge)",
    )
    add_setting_arguments(group)


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a command that needs a log. ``read_log_place`` reads them."""
    parser.set_defaults(
        refuse=parser.error, acls=None, as_of=None, bootstrap_server=None, command_config=None
    )
    parser.set_defaults(
        advice={
            "--bootstrap-server": "brokers do not list the past: use --config or --log-dir",
            "--acls": "a listing has no past: use --config or --log-dir",
        }
    )
    group = parser.add_argument_group("where the log is: --log-dir or --config")
    add_log_dir_argument(group)
    add_config_arguments(group, required=False)
    add_setting_arguments(group)


def open_source(arguments: argparse.Namespace) -> AclSource:
    """Read the ACLs from where the flags of ``add_source_arguments`` say. Blocks.

    Invalid flags end the command with exit code 2.

    Raises:
        StartError, ConfigurationError: the configuration is unusable, or no broker lists its ACLs.
        MetadataLogError: see ``offline.read_log``.
    """
    profile = use_profile(arguments, "log_dir", "acls", "config")
    if arguments.bootstrap_server is not None:
        _check_flags(arguments)
        return _open_brokers(arguments, profile)
    return _open_path(arguments)


def _check_flags(arguments: argparse.Namespace) -> None:
    """End the command if the flags cannot be combined."""
    refuse: Refuse = arguments.refuse
    if arguments.bootstrap_server is not None:
        _check_brokers_alone(arguments, refuse)
    elif arguments.command_config is not None:
        refuse("--command-config: expected --bootstrap-server as well")
    if arguments.acls is not None and arguments.log_dir is not None:
        refuse("--acls: expected either --acls or --log-dir, found both")
    if arguments.config is None and arguments.override:
        refuse("--override: expected --config as well")
    try:
        check_flags(arguments)
    except InvalidValueError as error:
        refuse(str(error))
    sources = (arguments.bootstrap_server, arguments.log_dir, arguments.acls, arguments.config)
    if all(each is None for each in sources):
        if "read_brokers" not in arguments:  # see add_log_arguments
            refuse("expected --log-dir DIR, or --config FILE, whose log directory is read")
        refuse(
            "expected --log-dir DIR, --acls FILE, --config FILE, whose log directory is read, or "
            "--bootstrap-server HOST:PORT"
        )


def _check_brokers_alone(arguments: argparse.Namespace, refuse: Refuse) -> None:
    """End the command if ``--bootstrap-server`` is not the only place of ACLs."""
    others = {
        "--log-dir": arguments.log_dir,
        "--acls": arguments.acls,
        "--config": arguments.config,
    }
    for flag, value in others.items():
        if value is not None:
            refuse(f"{flag}: expected either {flag} or --bootstrap-server, found both")
    if arguments.as_of is not None:
        refuse("--as-of: expected --log-dir or --config: brokers do not list ACLs of the past")


def read_log_place(arguments: argparse.Namespace) -> LogPlace:
    """Return where the log is, or the file of ``--acls``, and which settings apply.

    Invalid flags end the command with exit code 2.

    Raises:
        StartError, ConfigurationError: the configuration is unusable.
    """
    _check_flags(arguments)
    configuration: Configuration | None = None
    if arguments.config is not None:
        configuration = read_configuration(arguments.config, arguments.override)
        check_authorizer(configuration)
    stated = apply_flags(arguments, read_file_settings(configuration, str(arguments.config)))
    warn_of(find_setting_hints(stated))
    path: Path = arguments.log_dir or arguments.acls
    if path is None:
        path = Path(configuration.metadata_log_dir if configuration else "")
    evidence, release = None, None
    if configuration is not None:
        evidence = configuration.evidence if arguments.log_dir is None else None
        release = configuration.kafka_release.chosen
    release = getattr(arguments, "kafka_release", None) or release
    return LogPlace(path, parse_settings(stated), stated, evidence, release)


def _open_path(arguments: argparse.Namespace) -> AclSource:
    place = read_log_place(arguments)
    path = place.path
    if arguments.acls is not None and not is_log(path):
        return _open_file(arguments, path, place.stated, place.release)
    as_of = read_moment(arguments.as_of, "--as-of", arguments.refuse)
    log = read_log(path, as_of, evidence=place.evidence, setting=place.release)
    return AclSource(
        snapshot=log.snapshot,
        settings=place.settings,
        stated=place.stated,
        topics=log.topics,
        place=Place.LOG if path.is_dir() else Place.CHECKPOINT,
        name=str(path),
        offset=log.snapshot.offset,
        moment=None if as_of is None else log.moment,
    )


def _with_release(snapshot: AclSnapshot, release: Release | None) -> AclSnapshot:
    return snapshot if release is None else with_rules(snapshot, RULES[release])


def _open_file(
    arguments: argparse.Namespace,
    path: Path,
    stated: tuple[Setting, ...],
    release: Release | None,
) -> AclSource:
    if arguments.as_of is not None:
        refuse: Refuse = arguments.refuse
        refuse("--as-of: expected a log: other files do not have ACLs of the past")
    return AclSource(
        snapshot=_with_release(build_snapshot(read_acl_file(path)), release),
        settings=parse_settings(stated),
        stated=stated,
        topics=(),
        place=Place.FILE,
        name=str(path),
        offset=None,
    )


def _open_brokers(arguments: argparse.Namespace, profile: Profile | None) -> AclSource:
    servers: str = arguments.bootstrap_server
    read_brokers: ReadBrokers = arguments.read_brokers
    answer = read_brokers(servers, arguments.command_config)
    told = read_broker_settings(servers, answer.values, answer.failure)
    stated = apply_flags(arguments, apply_profile(profile, told))
    warn_of(find_setting_hints(stated))
    return AclSource(
        snapshot=_with_release(answer.snapshot, arguments.kafka_release),
        settings=parse_settings(stated),
        stated=stated,
        topics=answer.topics,
        place=Place.BROKERS,
        name=servers,
        offset=None,
        caller=None if answer.user is None else f"User:{answer.user}",
    )
