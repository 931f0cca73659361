"""The time from an ACL's acknowledgement until a server first decides by it.

Each server is asked in the same way: a user asks for the Metadata of one topic again and again, and
the answer changes as soon as the server knows the ACL. The first question is sent before the ACL is
created, so a server can know it before the acknowledgement arrives. Then its time is negative.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.rig import RigError

POLL_SECONDS: Final = 0.0005
SECONDS_MAX: Final = 10.0


def time_visibility(
    creator: Admin, askers: Sequence[Admin], user: str, samples: int
) -> list[list[float]]:
    """Return the milliseconds of each sample in ascending order, for each of ``askers``.

    Args:
        creator: creates the ACLs; its answer is the acknowledgement.
        askers: connections of ``user``, which may not describe any topic.

    Raises:
        RigError: an ACL was refused, or a server did not decide by it in 10 s.
    """
    times_ms: list[list[float]] = [[] for _ in askers]
    with ThreadPoolExecutor(len(askers)) as threads:
        for number in range(samples):
            topic = f"visible-{number:06}"
            if any(asker.may_describe(topic) for asker in askers):
                raise RigError(f"User:{user} may describe {topic} before its ACL was created")
            waiting = [threads.submit(_await_permission, asker, topic) for asker in askers]
            creator.create([_permission(user, topic)])
            acknowledged = time.perf_counter()
            for times, allowed in zip(times_ms, waiting, strict=True):
                times.append((allowed.result() - acknowledged) * 1000)
    return [sorted(times) for times in times_ms]


def _permission(user: str, topic: str) -> Acl:
    return Acl(
        ResourceType.TOPIC, topic, PatternType.LITERAL, f"User:{user}", WILDCARD,
        Operation.DESCRIBE, PermissionType.ALLOW,
    )  # fmt: skip


def _await_permission(asker: Admin, topic: str) -> float:
    """Return the time of the first answer that allows."""
    give_up = time.perf_counter() + SECONDS_MAX
    while not asker.may_describe(topic):
        if time.perf_counter() > give_up:
            raise RigError(f"no permission for {topic} in {SECONDS_MAX:g} s")
        time.sleep(POLL_SECONDS)
    return time.perf_counter()
