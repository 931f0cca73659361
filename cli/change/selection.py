"""What a plan manages: by flags, or else by the files of desired ACLs, or else everything."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

import msgspec

from authorizerd.acl.formats.model import AclsRead, Scope
from authorizerd.acl.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.model import ResourceType
from authorizerd.acl.plan.errors import PlanError
from authorizerd.acl.plan.names import has_known_codes
from authorizerd.acl.plan.selector import Managed, Selector, check_entry, manage_one
from authorizerd.cli.question_words import Refuse

Fields = dict[str, str]

_NO_FIELDS: Final[Fields] = {}


def read_selector(arguments: argparse.Namespace, files: Iterable[AclsRead]) -> Selector:
    """Return what the plan manages. Invalid flags end the command with exit code 2.

    Flags of principals and of resources narrow each other. Flags of one kind add up.

    Raises:
        PlanError: the files manage nothing.
    """
    refuse: Refuse = arguments.refuse
    principals, resources = list(_principals(arguments)), list(_resources(arguments))
    if arguments.resource_pattern_type and not any("resource_name" in each for each in resources):
        refuse("--resource-pattern-type: expected the name of a resource as well, such as --topic")
    if not (principals or resources):
        return _select_by_files(files)
    entries = [
        msgspec.convert(principal | resource, Managed)
        for principal, resource in product(principals or [_NO_FIELDS], resources or [_NO_FIELDS])
    ]
    for entry in entries:
        try:
            _check_texts(entry)
            check_entry(entry)
        except PlanError as error:
            field = error.place.rpartition(".")[2].replace("_", "-")
            refuse(f"flags for what the plan manages: {field}: {error.reason}")
    return Selector(entries)


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


def _select_by_files(files: Iterable[AclsRead]) -> Selector:
    """Return what all files together manage: everything, if one of them does.

    Raises:
        PlanError: the files manage nothing.
    """
    entries: list[Managed] = []
    for each in files:
        if each.scope is None:
            return Selector(None)
        entries += _entries_of(each.scope)
    if not entries:
        raise PlanError(
            "",
            "the desired files manage no ACLs: say by a flag, such as --principal, what to manage",
        )
    return Selector(entries)


def _entries_of(scope: Scope) -> Iterator[Managed]:
    yield from scope.entries
    for principal in sorted(scope.principals):
        yield Managed(principal=principal)
    for acl in sorted(scope.acls, key=msgspec.structs.astuple):
        if has_known_codes(acl):  # a plan touches no others
            yield manage_one(acl)
