"""The index of a set of ACLs, which judges recorded requests in this process or on Spark.

**Invariant:** a pickled index contains packed ACLs, and a process that unpickles it several times
builds it once. Unpacking 505,000 ACLs and building the index takes no longer than unpickling an
index, which would be three times as large.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any, Final, Self

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, Decision, authorize, explain
from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.index.builder import build
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.releases import RULES, Release, rules_for
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import (
    OPERATION_CODES,
    RESOURCE_TYPE_CODES,
    Asked,
    question_of,
)

INDEXES_KEPT: Final = 2
"""A comparison has two sets: a candidate and a baseline, or the old ACLs and the suggested ones."""

_ID_BYTES: Final = 16


class AclIndex:
    """An index of ACLs and the authorizer's settings; ``acls`` has each ACL once, in order.

    The index is built on first use, unless ``snapshot`` is given. Each request is judged by the
    rules of every one of ``releases``, the Kafka releases that may be in force.
    """

    def __init__(
        self,
        acls: Iterable[Acl],
        settings: AuthorizerSettings,
        snapshot: AclSnapshot | None = None,
        releases: tuple[Release, ...] = tuple(Release),
    ) -> None:
        self.acls = tuple(dict.fromkeys(acls))
        self.settings = settings
        self._last: tuple[Asked, tuple[bool, ...]] | None = None
        self.releases = releases if snapshot is None else snapshot.rules.releases
        if snapshot is not None:
            self.snapshot = snapshot

    @classmethod
    def of(cls, acl_set: AclSet) -> Self:
        """Return the index of a set."""
        acls = (item.acl for item in acl_set.acls)
        return cls(acls, acl_set.settings, releases=acl_set.releases)

    @cached_property
    def snapshot(self) -> AclSnapshot:
        with collector_off():
            snapshot = build(
                AclAdded(number.to_bytes(_ID_BYTES, "big"), acl)
                for number, acl in enumerate(self.acls)
            )
            return with_rules(snapshot, rules_for(self.releases))

    @cached_property
    def states(self) -> tuple[AclSnapshot, ...]:
        """The ACLs with the rules of each release that may judge."""
        return tuple(with_rules(self.snapshot, RULES[release]) for release in self.releases)

    @cached_property
    def depends_on_release(self) -> bool:
        """Whether releases may differ, because an ACL's host is a range of addresses."""
        return any(find_range(acl.host) is not None for acl in self.acls)

    @cached_property
    def numbers(self) -> dict[Acl, int]:
        return {acl: number for number, acl in enumerate(self.acls)}

    def answers(self, asked: Asked) -> tuple[bool, ...]:
        """Return the answer of each release to a request that ``asking.unasked_reason`` accepts."""
        if self._last is None or self._last[0] is not asked:
            self._last = asked, self._judge(asked)
        return self._last[1]

    def _judge(self, asked: Asked) -> tuple[bool, ...]:
        if self.depends_on_release:
            return tuple(self._allows(state, asked) for state in self.states)
        return (self._allows(self.snapshot, asked),) * len(self.releases)

    def _allows(self, snapshot: AclSnapshot, asked: Asked) -> bool:
        return authorize(
            snapshot,
            self.settings,
            asked.principal,
            asked.host,
            OPERATION_CODES[asked.operation],
            RESOURCE_TYPE_CODES[asked.resource_type],
            asked.resource_name,
        )

    def explain(self, asked: Asked, release: int = 0) -> Decision:
        """Return the decision about a request with its rule, by one of the releases."""
        return explain(self.states[release], self.settings, question_of(asked))

    def matching(self, asked: Asked) -> Iterator[int]:
        """Yield the number of each ACL that matches a request of an ordinary user, by any release.

        Later releases match everything that earlier ones match.
        """
        return (self.numbers[acl] for acl in matching_acls(self.states[-1], question_of(asked)))

    def __reduce__(self) -> tuple[Callable[[bytes], AclIndex], tuple[bytes]]:
        return _unpickle, (self._packed,)

    @cached_property
    def _packed(self) -> bytes:
        users = sorted(self.settings.super_users)
        is_open = self.settings.allow_everyone_if_no_acl_found
        return msgspec.msgpack.encode((self.acls, users, is_open, self.releases))


@lru_cache(INDEXES_KEPT)  # a worker process outlives a job, so the number is bounded
def _unpickle(packed: bytes) -> AclIndex:
    kind: Any = tuple[list[Acl], frozenset[str], bool, tuple[Release, ...]]
    with collector_off():
        acls, super_users, is_open, releases = msgspec.msgpack.decode(packed, type=kind)
    return AclIndex(acls, AuthorizerSettings(super_users, is_open), releases=releases)


@contextmanager
def collector_off() -> Iterator[None]:
    """Turn the garbage collector off.

    It would repeatedly walk a growing index or table, which contains no garbage.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
