"""The flags that select ACLs: those that a plan manages, or an export or import transfers.

Names and ``--resource-pattern-type`` mean the same as in ``kafka-acls --list``, but names are not
trimmed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

import msgspec

from authorizerd.acl.model import ResourceType
from authorizerd.acl.text.kafka_acls import RESOURCE_FLAGS
from authorizerd.cli.flags import Refuse, add_list, add_switch, is_utf8, read_request
from authorizerd.cli.question_words import warn_of_expanded
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.selector import Managed, check_entry

Fields = dict[str, str]

_NO_FIELDS: Final[Fields] = {}


def add_selection_flags(group: argparse._ArgumentGroup) -> None:
    more = "; may be repeated"
    text = f"the ACLs of this principal, such as User:alice{more}"
    add_list(group, "--principal", "PRINCIPAL", text)
    text = f"the ACLs of principals that begin with this text{more}"
    add_list(group, "--principal-prefix", "TEXT", text)
    for flag in RESOURCE_FLAGS:
        what = flag.replace("-", " ")
        add_list(group, f"--{flag}", "NAME", f"the ACLs of this {what}{more}")
        text = f"the ACLs of every {what} that begins with this text{more}"
        add_list(group, f"--{flag}-prefix", "TEXT", text)
    add_switch(group, "--cluster", "the ACLs of the cluster")
    group.add_argument(
        "--resource-pattern-type",
        type=str.upper,
        choices=("LITERAL", "PREFIXED", "ANY", "MATCH"),
        help="how NAME is compared, as in kafka-acls --list (default: LITERAL)",
    )


class Selection(msgspec.Struct, frozen=True):
    """The values of the flags.

    Attributes:
        texts: the values of the flags that take texts, by flag name with underscores.
    """

    refuse: Refuse
    texts: Mapping[str, tuple[str, ...]]
    cluster: bool
    resource_pattern_type: str | None

    def read_entries(self) -> list[Managed]:
        """Return one entry for each selection; without flags, none.

        Flags for principals and flags for resources narrow each other. Flags of one kind add up.
        Invalid flags end the command with exit code 2.
        """
        names = ("principal", "principal_prefix")
        principals = [{name: text} for name in names for text in self.texts[name]]
        resources = list(self._resources())
        if self.resource_pattern_type and not any("resource_name" in each for each in resources):
            self.refuse(
                "--resource-pattern-type: expected the name of a resource as well, such as --topic"
            )
        if not (principals or resources):
            return []
        entries = [
            msgspec.convert(principal | resource, Managed)
            for principal, resource in product(
                principals or [_NO_FIELDS], resources or [_NO_FIELDS]
            )
        ]
        warn_of_expanded(name for each in resources for name in each.values())
        for entry in entries:
            try:
                for name, value in msgspec.structs.asdict(entry).items():
                    if value and not is_utf8(value):
                        raise PlanError(name, f"expected UTF-8, found {value!r}")
                check_entry(entry)
            except PlanError as error:
                field = error.place.rpartition(".")[2].replace("_", "-")
                self.refuse(f"flags that select ACLs: {field}: {error.reason}")
        return entries

    def _resources(self) -> Iterator[Fields]:
        pattern: Fields = {}
        if self.resource_pattern_type:
            pattern = {"pattern_type": self.resource_pattern_type}
        for flag, resource_type in RESOURCE_FLAGS.items():
            word, typed = flag.replace("-", "_"), {"resource_type": resource_type.name}
            for name in self.texts[word]:
                yield {**typed, "resource_name": name, **pattern}
            for prefix in self.texts[f"{word}_prefix"]:
                yield {**typed, "resource_name_prefix": prefix}
        if self.cluster:
            yield {"resource_type": ResourceType.CLUSTER.name}


def read_selection(given: argparse.Namespace) -> Selection:
    words = ["principal", *(flag.replace("-", "_") for flag in RESOURCE_FLAGS)]
    names = [each for word in words for each in (word, f"{word}_prefix")]
    return read_request(
        Selection, given, texts={name: tuple(getattr(given, name)) for name in names}
    )
