"""The options that name sets of ACLs.

**Invariant:** a source is read once, here. The job receives the ACLs, never the source.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TypeVar

from authorizerd.acl.releases import Release
from authorizerd.cli.program.flags import add_value
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.values import boolean, parse_principals
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.reading import PROFILE, SCHEME, read_acl_source
from authorizerd.replay.options import is_uri, parse_file, parse_path, refuse

T = TypeVar("T")


def add_acl_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for ACLs and their settings."""
    has_profile = bool(os.environ.get(PROFILE))
    parser.add_argument(
        "--acls",
        required=not has_profile,
        default=SCHEME if has_profile else None,
        type=parse_path,
        metavar="SOURCE",
        help="a log directory, a .checkpoint file, kafka-acls --list output, a YAML or JSON"
        f" file, or kafka://HOST:PORT; without it, the profile that {PROFILE} names",
    )
    parser.add_argument(
        "--as-of", metavar="TIME|OFFSET", help="use the ACLs of a log directory at that time"
    )
    text = (
        "same as super.users: Type:name;Type:name; an empty list says that there are none. "
        "Without it, they are unknown, and judged by the ACLs alone"
    )
    add_value(parser, "--super-users", _setting(parse_principals), "A;B", text)
    parser.add_argument(
        "--allow-everyone-if-no-acl-found",
        type=_setting(boolean),
        nargs="?",
        const=True,
        metavar="true|false",
        help="same as the setting (true if no value follows). Without it, it is unknown, and taken "
        "to be false",
    )
    parser.add_argument(
        "--kafka-release",
        choices=list(map(str, Release)),
        help="judge by the rules of this Kafka release: 4.3 means 4.0 to 4.3. Without it, "
        "a request that any release denies counts as denied",
    )
    text = "client settings for kafka:// sources"
    add_value(parser, "--command-config", parse_file, "FILE", text)


def check_command_config(parsed: argparse.Namespace, *sources: str | None) -> None:
    """Refuse ``--command-config`` if none of the sources is a cluster, which would ignore it."""
    if parsed.command_config and not any(source and is_uri(source) for source in sources):
        refuse(parsed, f"--command-config: expected a {SCHEME} source of ACLs as well")


def _setting(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return the parser of an option with the values of a setting."""

    def parse_option(text: str) -> T:
        try:
            return parse(text)
        except InvalidValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_option


def read_acl_set(parsed: argparse.Namespace, source: str, as_of: str | None) -> AclSet:
    """Return the ACLs of ``source``, with the settings of the options.

    Raises:
        AclSourceError: the source cannot be read.
    """
    release = parsed.kafka_release
    return read_acl_source(
        source,
        as_of=as_of,
        super_users=parsed.super_users,
        allow_everyone_if_no_acl_found=parsed.allow_everyone_if_no_acl_found,
        command_config=parsed.command_config,
        releases=tuple(Release) if release is None else (Release(release),),
    )
