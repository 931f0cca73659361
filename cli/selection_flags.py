"""The flags that choose some of the ACLs: what a plan manages, and what an export or import takes.

A name and ``--resource-pattern-type`` have the meaning that they have in ``kafka-acls --list``, but
a name is not trimmed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Final

import msgspec

from authorizerd.acl.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.model import ResourceType
from authorizerd.acl.plan.errors import PlanError
from authorizerd.acl.plan.selector import Managed, check_entry
from authorizerd.cli.expanded_words import find_expanded
from authorizerd.cli.question_words import Refuse, warn_of

Fields = dict[str, str]

_NO_FIELDS: Final[Fields] = {}


def add_selection_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags. ``read_entries`` reads them."""
    _add_texts(group, "principal", "PRINCIPAL", "the ACLs of this principal, such as User:alice")
    _add_texts(
        group, "principal-prefix", "TEXT", "the ACLs of principals that begin with this text"
    )
    for flag in RESOURCE_FLAGS:
        what = flag.replace("-", " ")
        _add_texts(group, flag, "NAME", f"the ACLs of this {what}")
        _add_texts(
            group, f"{flag}-prefix", "TEXT", f"the ACLs of every {what} that begins with this text"
        )
    group.add_argument("--cluster", action="store_true", help="the ACLs of the cluster")
    group.add_argument(
        "--resource-pattern-type",
        type=str.upper,
        choices=("LITERAL", "PREFIXED", "ANY", "MATCH"),
        help="how NAME is compared, as in kafka-acls --list (default: LITERAL)",
    )


def _add_texts(group: argparse._ArgumentGroup, flag: str, metavar: str, text: str) -> None:
    group.add_argument(
        f"--{flag}",
        action="append",
        default=[],
        metavar=metavar,
        help=f"{text}; may be repeated",
    )


def read_entries(arguments: argparse.Namespace) -> list[Managed]:
    """Return an entry for each choice of the flags; none without flags.

    Flags of principals and of resources narrow each other. Flags of one kind add up. Invalid flags
    end the command with exit code 2.
    """
    refuse: Refuse = arguments.refuse
    principals, resources = list(_principals(arguments)), list(_resources(arguments))
    if arguments.resource_pattern_type and not any("resource_name" in each for each in resources):
        refuse("--resource-pattern-type: expected the name of a resource as well, such as --topic")
    if not (principals or resources):
        return []
    entries = [
        msgspec.convert(principal | resource, Managed)
        for principal, resource in product(principals or [_NO_FIELDS], resources or [_NO_FIELDS])
    ]
    expanded = find_expanded(name for each in resources for name in each.values())
    warn_of([] if expanded is None else [expanded])
    for entry in entries:
        try:
            _check_texts(entry)
            check_entry(entry)
        except PlanError as error:
            field = error.place.rpartition(".")[2].replace("_", "-")
            refuse(f"flags that select ACLs: {field}: {error.reason}")
    return entries


def _check_texts(entry: Managed) -> None:
    """Reject names that were not UTF-8. Python decodes such bytes as surrogates."""
    for name, value in msgspec.structs.asdict(entry).items():
        if value and any("\ud800" <= character <= "\udfff" for character in value):
            raise PlanError(name, f"expected UTF-8, found {value!r}")


def _principals(arguments: argparse.Namespace) -> Iterator[Fields]:
    for field in ("principal", "principal_prefix"):
        for text in getattr(arguments, field):
            yield {field: text}


def _resources(arguments: argparse.Namespace) -> Iterator[Fields]:
    pattern: Fields = {}
    if arguments.resource_pattern_type:
        pattern = {"pattern_type": arguments.resource_pattern_type}
    for flag, resource_type in RESOURCE_FLAGS.items():
        word, typed = flag.replace("-", "_"), {"resource_type": resource_type.name}
        for name in getattr(arguments, word):
            yield {**typed, "resource_name": name, **pattern}
        for prefix in getattr(arguments, f"{word}_prefix"):
            yield {**typed, "resource_name_prefix": prefix}
    if arguments.cluster:
        yield {"resource_type": ResourceType.CLUSTER.name}
