"""Where the ACLs are: the flags of every command that answers questions about ACLs.

``add_source_arguments`` adds the flags, and ``open_source`` reads the ACLs, the settings that
decisions depend on, and the names of existing topics.

**Invariant:** each setting has its origin (``source_settings``), because a daemon or a broker with
different settings may decide differently.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.as_of import Moment, format_time
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.index.builder import build
from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS, KnownSettings
from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import AclAdded
from authorizerd.acl.release_in_force import Evidence
from authorizerd.acl.releases import RULES, Release
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from authorizerd.cli import flags, source_settings
from authorizerd.cli.acl_file import is_log, read_acl_file
from authorizerd.cli.configuration_file import read_configuration
from authorizerd.cli.offline import read_log
from authorizerd.cli.profile import Profile, use_profile
from authorizerd.cli.question_words import MOMENT_HELP, read_moment, warn_of
from authorizerd.config.configuration import Configuration
from authorizerd.management.formats.catalogue import FORMAT_NAMES


class Place(StrEnum):
    """The kind of place that the ACLs were read from."""

    LOG = "log"
    CHECKPOINT = "checkpoint"
    FILE = "file"
    BROKERS = "brokers"


class AclSource(msgspec.Struct, frozen=True):
    """The ACLs, and everything else that answers depend on.

    Attributes:
        settings: the known settings; brokers, logs and files of ACLs do not show all of them.
        stated: the settings as text, each with its origin; ``settings`` has the same values.
        topics: the names of all topics that are known to exist, sorted. A log knows them if a
            broker or a follower of a quorum wrote it. A broker reports those that the caller may
            describe.
        place: the kind of place of ``name``.
        name: a path, or the addresses of brokers.
        offset: the log offset of the ACLs; None if a broker or a file lists them.
        moment: the past moment given by --as-of; None without it.
        caller: the principal that the command logged in as at a broker; None if it is not known.
        unread: how many parts of a file were not read, so that there may be more ACLs.
    """

    snapshot: AclSnapshot
    settings: KnownSettings
    stated: tuple[source_settings.Setting, ...]
    topics: tuple[str, ...]
    place: Place
    name: str
    offset: int | None
    moment: Moment | None = None
    caller: str | None = None
    unread: int = 0

    @property
    def server(self) -> str:
        """The address for commands that change the ACLs."""
        from authorizerd.acl.explanation.description import ANY_SERVER  # few answers need it

        return self.name if self.place is Place.BROKERS else ANY_SERVER

    @property
    def document(self) -> dict[str, object]:
        """The field ``source`` of an answer in JSON, which docs/documents.md describes."""
        return {
            "place": self.place,
            "name": self.name,
            "offset": self.offset,
            "as_of": None if self.moment is None else format_time(self.moment.time_ms),
            "acls": len(self.snapshot.acls),
            "settings": self.stated,
            "unread": self.unread,
        }

    def describe(self) -> Iterator[str]:
        """Yield the final lines of an answer: which ACLs were used, and the settings."""
        yield self.describe_acls()
        yield self.describe_settings()

    def describe_acls(self) -> str:
        acls = count_of(len(self.snapshot.acls), "ACL")
        if self.offset is None:
            unread = f"; {count_of(self.unread, 'part')} not read: see the warnings"
            return f"as listed by {self.name}, with {acls}{unread if self.unread else ''}"
        if self.moment is None:
            return f"at log offset {self.offset}, with {acls}"
        return f"as of {self.moment}, with {acls}; the settings are today's"

    def describe_settings(self) -> str:
        return source_settings.describe_settings(
            self.stated, "" if self.place is Place.BROKERS else source_settings.USE_CONFIG
        )


class LogPlace(msgspec.Struct, frozen=True):
    """Where a log is, and the settings that apply; see ``AclSource``."""

    path: Path
    settings: KnownSettings
    stated: tuple[source_settings.Setting, ...]
    evidence: Evidence | None = None
    release: Release | None = None


class SourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that say where the ACLs are, and which settings apply.

    If a command lacks a flag, its default applies.
    """

    refuse: flags.Refuse
    log_dir: Path | None = None
    acls: Path | None = None
    config: Path | None = None
    override: tuple[str, ...] = ()
    as_of: str | None = None
    bootstrap_server: str | None = None
    command_config: str | None = None
    kafka_release: Release | None = None
    super_users: str | None = None
    allow_everyone_if_no_acl_found: str | None = None

    @property
    def settings(self) -> Mapping[str, str | None]:
        """The flags of ``add_setting_arguments``, by their keys."""
        return {
            SUPER_USERS: self.super_users,
            ALLOW_EVERYONE: self.allow_everyone_if_no_acl_found,
        }


def add_source_arguments(parser: argparse.ArgumentParser, *, is_of_moment: bool = True) -> None:
    """Add the flags that name a source.

    Args:
        is_of_moment: False for a command that compares with all states of a log.
    """
    parser.set_defaults(refuse=parser.error)
    group = parser.add_argument_group(
        "where the ACLs are: one of --log-dir, --acls, --config and --bootstrap-server"
    )
    flags.add_log_dir_argument(group)
    text = (
        f"a file of ACLs in one of the formats {FORMAT_NAMES} (acls export --help explains "
        "them); with --config, instead of the log directory of that configuration"
    )
    flags.add_file(group, "--acls", text)
    flags.add_config_arguments(group, required=False)
    if is_of_moment:
        text = f"answer by the ACLs of this moment: {MOMENT_HELP}. It needs --log-dir or --config"
        flags.add_text(group, "--as-of", "MOMENT", text)
    use = "with --bootstrap-server" if is_of_moment else "with --bootstrap-server or kafka:// logs"
    flags.add_broker_arguments(group, "Listing ACLs needs DESCRIBE on the cluster", use)
    text = (
        "answer by the rules of this Kafka release; 4.3 means 4.0 to 4.3 (default: the release "
        f"shown by {'the log, ' if is_of_moment else ''}the configuration or the brokers, or else "
        "every possible release)"
    )
    flags.add_text(group, "--kafka-release", None, text, type=Release, choices=tuple(Release))
    source_settings.add_setting_arguments(group)


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a command that needs a log. ``read_log_place`` reads them."""
    advice = {
        "--bootstrap-server": "brokers do not list the past: use --config or --log-dir",
        "--acls": "a listing has no past: use --config or --log-dir",
    }
    parser.set_defaults(refuse=parser.error, advice=advice)
    group = parser.add_argument_group("where the log is: --log-dir or --config")
    flags.add_log_dir_argument(group)
    flags.add_config_arguments(group, required=False)
    source_settings.add_setting_arguments(group)


_EXPECTED: Final = (
    "expected --log-dir DIR, --acls FILE, --config FILE, whose log directory is read, or "
    "--bootstrap-server HOST:PORT"
)


def read_source(arguments: argparse.Namespace) -> AclSource:
    """Read the ACLs named by the flags of ``add_source_arguments``. See ``open_source``."""
    return open_source(flags.read_request(SourceRequest, arguments))


def open_source(request: SourceRequest) -> AclSource:
    """Read the ACLs from the place that the flags name. Blocks.

    Invalid flags end the command with exit code 2.
    """
    place = open_place(request)
    return _open_log(request, place) if isinstance(place, LogPlace) else place


def open_place(request: SourceRequest) -> AclSource | LogPlace:
    """Return where the log is, or what brokers or another file list. Blocks.

    Invalid flags end the command with exit code 2.
    """
    request, profile = use_profile(request, "log_dir", "acls", "config")
    if request.bootstrap_server is not None:
        _check_flags(request, _EXPECTED)
        return _open_brokers(request, request.bootstrap_server, profile)
    place = read_log_place(request, _EXPECTED)
    if request.acls is not None and not is_log(request.acls):
        return _open_file(request, place)
    return place


def _check_flags(request: SourceRequest, expected: str) -> None:
    refuse, others = request.refuse, (request.log_dir, request.acls, request.config)
    if request.bootstrap_server is not None:
        for flag, value in zip(("--log-dir", "--acls", "--config"), others, strict=True):
            if value is not None:
                refuse(f"{flag}: expected either {flag} or --bootstrap-server, found both")
        if request.as_of is not None:
            refuse("--as-of: expected --log-dir or --config: brokers do not list ACLs of the past")
    elif request.command_config is not None:
        refuse("--command-config: expected --bootstrap-server as well")
    if request.acls is not None and request.log_dir is not None:
        refuse("--acls: expected either --acls or --log-dir, found both")
    if request.config is None and request.override:
        refuse("--override: expected --config as well")
    source_settings.check_flags(request.settings, refuse)
    if all(other is None for other in (request.bootstrap_server, *others)):
        refuse(expected)


def read_log_place(
    request: SourceRequest,
    expected: str = "expected --log-dir DIR, or --config FILE, whose log directory is read",
) -> LogPlace:
    """Return where the log is, or the file of ``--acls``, and which settings apply.

    Invalid flags end the command with exit code 2.

    Args:
        expected: the error if no flag names a place.
    """
    _check_flags(request, expected)
    configuration: Configuration | None = None
    if request.config is not None:
        configuration = read_configuration(request.config, request.override)
        source_settings.check_authorizer(configuration)
    told = source_settings.read_file_settings(configuration, str(request.config))
    stated = source_settings.apply_flags(request.settings, told)
    warn_of(source_settings.find_setting_hints(stated))
    path = request.log_dir or request.acls
    evidence, release = None, request.kafka_release
    if configuration is not None:
        path = path or Path(configuration.metadata_log_dir)
        evidence = configuration.evidence if request.log_dir is None else None
        release = release or configuration.kafka_release.chosen
    return LogPlace(
        path or Path(), source_settings.parse_settings(stated), stated, evidence, release
    )


def _open_log(request: SourceRequest, place: LogPlace) -> AclSource:
    as_of = read_moment(request.as_of, "--as-of", request.refuse)
    log = read_log(place.path, as_of, evidence=place.evidence, setting=place.release)
    return AclSource(
        snapshot=log.snapshot,
        settings=place.settings,
        stated=place.stated,
        topics=log.topics,
        place=Place.LOG if place.path.is_dir() else Place.CHECKPOINT,
        name=str(place.path),
        offset=log.snapshot.offset,
        moment=None if as_of is None else log.moment,
    )


def _with_release(snapshot: AclSnapshot, release: Release | None) -> AclSnapshot:
    return snapshot if release is None else with_rules(snapshot, RULES[release])


def _open_file(request: SourceRequest, place: LogPlace) -> AclSource:
    if request.as_of is not None:
        request.refuse("--as-of: expected a log: other files do not have ACLs of the past")
    read = read_acl_file(place.path)
    added = (AclAdded(derive_id(acl), acl) for acl in read.acls)
    return AclSource(
        snapshot=_with_release(build(added, offset=-1), place.release),
        settings=place.settings,
        stated=place.stated,
        topics=(),
        place=Place.FILE,
        name=str(place.path),
        offset=None,
        unread=len(read.losses),
    )


def _open_brokers(request: SourceRequest, servers: str, profile: Profile | None) -> AclSource:
    # Kafka's message definitions take longer to load than the rest of a command.
    from authorizerd.cli.broker_acls import read_brokers

    answer = read_brokers(servers, request.command_config)
    told = source_settings.read_broker_settings(servers, answer.values, answer.failure)
    stated = source_settings.apply_flags(
        request.settings, source_settings.apply_profile(profile, told)
    )
    warn_of(source_settings.find_setting_hints(stated))
    return AclSource(
        snapshot=_with_release(answer.snapshot, request.kafka_release),
        settings=source_settings.parse_settings(stated),
        stated=stated,
        topics=answer.topics,
        place=Place.BROKERS,
        name=servers,
        offset=None,
        caller=None if answer.user is None else f"User:{answer.user}",
    )
