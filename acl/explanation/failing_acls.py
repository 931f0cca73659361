"""The ACLs that Kafka cannot judge, and the command that removes each.

Source: Kafka 4.3 StandardAuthorizerData.findResult fails on a principal without a colon. Kafka
before 3.9 stored such ACLs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

import msgspec

from authorizerd.acl.explanation.description import ANY_SERVER, describe_command
from authorizerd.acl.explanation.model import AclChange
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.printable import escape_unprintable

NAMED_MAX: Final = 10


class Failure(msgspec.Struct, frozen=True):
    """The effects of ACLs on which Kafka fails, and the remedy."""

    text: str
    remedy: str


def count_failing(snapshot: AclSnapshot) -> int:
    """Return the number of ACLs that Kafka cannot judge."""
    return sum(sum(map(len, index.unjudgeable.values())) for index in snapshot.types)


def find_failures(snapshot: AclSnapshot, server: str = ANY_SERVER) -> Iterator[Failure]:
    """Describe the first ``NAMED_MAX`` ACLs that Kafka cannot judge, and count the rest.

    Args:
        server: the value of ``--bootstrap-server`` in commands.
    """
    for acl in islice(_list_failing(snapshot), NAMED_MAX):
        text = (
            f"Kafka fails on {acl}, because its principal has no colon: it allows nobody but super "
            "users anything on what the ACL's pattern matches, and neither does authorizerd"
        )
        remedy = f"remove it: {describe_command(AclChange(False, acl), server)}"
        yield Failure(escape_unprintable(text), escape_unprintable(remedy))
    more = count_failing(snapshot) - NAMED_MAX
    if more > 0:
        text = f"Kafka fails on {count_of(more, 'more ACL')} whose principal has no colon"
        yield Failure(text, "remove those that are named, and look again")


def _list_failing(snapshot: AclSnapshot) -> Iterator[Acl]:
    for index in snapshot.types:
        yield from chain.from_iterable(index.unjudgeable.values())
