"""The words of a question on the command line: principal, host, operation and resource.

**Invariant:** an unknown word ends the command with exit code 2 and an error with the flag, the
word found and the words expected. A name is neither split nor trimmed, because Kafka clients may
use names with commas and spaces.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Final, TypeAlias

from authorizerd.acl.as_of import AsOf, parse_as_of
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import (
    CLUSTER_NAME,
    OPERATIONS,
    RESOURCE_TYPES,
    WILDCARD_PRINCIPAL,
    Operation,
    ResourceType,
)
from authorizerd.acl.surprises import find_asked_name_surprises, find_principal_surprises
from authorizerd.acl.text.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.flags import Refuse, add_list, add_switch, add_text, find_expanded, is_utf8
from authorizerd.protocol.decisions.spellings import Spellings

Resource: TypeAlias = tuple[ResourceType, str]

MOMENT_HELP: Final = (
    "an offset of the log, a time with its zone such as 2026-01-02T03:04:05Z, or milliseconds "
    "since 1970"
)
_OPERATIONS: Final = Spellings({each.name: each for each in map(Operation, OPERATIONS)})
_RESOURCE_TYPES: Final = Spellings({each.name: each for each in map(ResourceType, RESOURCE_TYPES)})

HOST_HELP: Final = "the client's IP address"
OPERATION_HELP: Final = (
    "a Kafka operation, such as Read or DescribeConfigs; letter case, _ and - are ignored"
)
PRINCIPAL_HELP: Final = "Type:name, for example User:alice"


def add_resource_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each resource type. ``read_resource`` reads them."""
    for flag in RESOURCE_FLAGS:
        add_list(parser, f"--{flag}", "NAME", f"the {flag.replace('-', ' ')} to ask about")
    add_switch(parser, "--cluster", f"ask about the cluster (the resource {CLUSTER_NAME})")


def read_resource(arguments: argparse.Namespace, refuse: Refuse) -> Resource:
    """Return the one resource that the flags name."""
    named = [
        (resource_type, name)
        for flag, resource_type in RESOURCE_FLAGS.items()
        for name in getattr(arguments, flag.replace("-", "_"))
    ]
    named += [(ResourceType.CLUSTER, CLUSTER_NAME)] * arguments.cluster
    if len(named) != 1:
        flags = ", ".join(f"--{flag}" for flag in (*RESOURCE_FLAGS, "cluster"))
        refuse(f"expected exactly one resource, found {len(named)}: use one of {flags}")
    resource_type, name = named[0]
    words = {each: f"--{flag}" for flag, each in RESOURCE_FLAGS.items()}
    if not name:
        refuse(f"{words[resource_type]}: expected a name, found an empty text")
    _check_text(name, words.get(resource_type, ""), refuse)
    warn_of(find_asked_name_surprises(resource_type, name))
    warn_of_expanded([name])
    return resource_type, name


def read_operation(text: str, word: str, refuse: Refuse) -> Operation:
    """Return an operation.

    Args:
        word: the flag or argument with the text, for errors.
    """
    found = _OPERATIONS.find(text)
    if found is None:
        refuse(_OPERATIONS.describe_unknown(f"{word}: unknown operation", text))
    return found


def read_resource_type(text: str, word: str, refuse: Refuse) -> ResourceType:
    """Return a resource type. See ``read_operation``."""
    found = _RESOURCE_TYPES.find(text)
    if found is None:
        refuse(_RESOURCE_TYPES.describe_unknown(f"{word}: unknown resource type", text))
    return found


def read_principal(text: str, word: str, refuse: Refuse) -> str:
    """Return a principal, which must be ``Type:name``. See ``read_operation``."""
    principal_type, _, name = text.partition(":")
    if not (principal_type and name):
        refuse(f"{word}: expected {PRINCIPAL_HELP}, found {text!r}")
    _check_text(text, word, refuse)
    if text != WILDCARD_PRINCIPAL:
        warn_of(find_principal_surprises(text))
    return text


def read_one_principal(text: str, word: str, refuse: Refuse) -> str:
    refuse_everyone(text, word, refuse)
    return read_principal(text, word, refuse)


def add_principal_argument(parser: argparse.ArgumentParser) -> None:
    """Add PRINCIPAL, which may also be a flag, as in ``explain``."""
    parser.add_argument("principal", nargs="?", metavar="PRINCIPAL", help=PRINCIPAL_HELP)
    text = "the same, as a flag, as in explain and history"
    parser.add_argument("--principal", dest="principal_flag", metavar="PRINCIPAL", help=text)


def read_asked_principal(arguments: argparse.Namespace, refuse: Refuse) -> str:
    """Return the principal of ``add_principal_argument``."""
    text, flag = arguments.principal, arguments.principal_flag
    if text is None and flag is None:
        refuse("the following arguments are required: PRINCIPAL")
    if None not in (text, flag):
        refuse("--principal: expected either PRINCIPAL or --principal, found both")
    if text is None:
        return read_one_principal(flag, "--principal", refuse)
    return read_one_principal(text, "PRINCIPAL", refuse)


def refuse_everyone(principal: str, word: str, refuse: Refuse) -> None:
    """End the command if the principal is ``User:*``, which means everyone."""
    if principal == WILDCARD_PRINCIPAL:
        refuse(f"{word}: {WILDCARD_PRINCIPAL} means everyone: ask about one principal")


def read_moment(text: str | None, word: str, refuse: Refuse) -> AsOf | None:
    """Return a moment of the past, or None without the flag. See ``read_operation``."""
    try:
        return None if text is None else parse_as_of(text)
    except InvalidAsOfError as error:
        refuse(f"{word}: {error}")


def add_host_argument(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--host``. ``default`` says what happens without it."""
    add_text(parser, "--host", "ADDRESS", f"{HOST_HELP} (default: {default})")


def read_host(text: str | None, refuse: Refuse) -> str | None:
    """Return the address in ``--host`` as Kafka compares it, or None without the flag."""
    host = None if text is None else host_address(text)
    if text is not None and host is None:
        refuse(f"--host: expected an IP address, found {text!r}")
    return host


def warn_of(surprises: Iterable[str]) -> None:
    for text in surprises:
        sys.stderr.write(f"authorizerd: warning: {escape_unprintable(text)}\n")


def warn_of_expanded(names: Iterable[str]) -> None:
    warning = find_expanded(names)
    warn_of([] if warning is None else [warning])


def _check_text(text: str, word: str, refuse: Refuse) -> None:
    """End the command if a name was not UTF-8."""
    if not is_utf8(text):
        refuse(f"{word}: expected UTF-8, found {text!r}")
