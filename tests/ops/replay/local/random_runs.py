"""Random logs and sets of ACLs, for runs by both engines."""

import gzip
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from authorizerd.acl.model import Acl
from authorizerd.acl.releases import Release
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of

DAY_MS = 86_400_000
BEGINS_MS = 1_795_219_200_000
"""2026-11-21, in UTC."""

_PRINCIPALS = ("User:a", "User:b", "User:ü", "User:*", "Group:a", "User:admin")
_HOSTS = ("10.0.0.1", "10.0.0.2", "unknown")
_NAMES = ("t", "u", "orders-1", "orders-2", "orders", "*a", "ü", "😀", "kafka-cluster", "Ⅻ")
_LAYOUTS = (
    "Principal = {} is {} operation = {} from host = {} on resource = {}:LITERAL:{} for request = "
    "Fetch with resourceRefCount = 1 based on rule {} (kafka.authorizer.logger)",
    "Principal = {} is {} Operation = {} from host = {} on resource = {}:LITERAL:{}",
    "Principal = {} is {} Operation = {} from host = {} on resource = {}:PREFIXED:{}",
)


def write_random_logs(drawn: random.Random, folder: Path) -> None:
    """Write two logs of three days in which requests repeat; one of them is packed."""
    lines = [_line(drawn) for _ in range(drawn.randrange(2, 400))]
    half = len(lines) // 2
    folder.mkdir()
    (folder / "a.log").write_text("".join(lines[:half]), encoding="utf-8")
    (folder / "b.log.gz").write_bytes(gzip.compress("".join(lines[half:]).encode()))


def _line(drawn: random.Random) -> str:
    one = drawn.choice
    if drawn.random() < 0.03:
        return one(("", "no audit line", "{}")) + "\n"
    day, hour, minute = drawn.randrange(21, 24), drawn.randrange(24), drawn.randrange(60)
    at = f"2026-11-{day} {hour:02d}:{minute:02d}:{drawn.randrange(60):02d}"
    text = drawn.choices(_LAYOUTS, (8, 2, 1))[0].format(
        one(_PRINCIPALS), one(("Allowed", "Allowed", "Denied")),
        one(("Read", "Write", "Describe", "Alter", "IdempotentWrite", "Any")), one(_HOSTS),
        one(("Topic", "Topic", "Group", "Cluster")), one(_NAMES),
        one(("DefaultDeny", "SuperUser", "A", "B")),
    )  # fmt: skip
    return f"[{at},{drawn.randrange(1000):03d}] {one(('DEBUG', 'INFO'))} {text}\n"


def random_set(drawn: random.Random, added: Callable[[], int | None] = lambda: None) -> AclSet:
    """Return a set of ACLs that often match the logs; ``added`` returns their times."""
    acls = tuple(
        dict.fromkeys(
            Acl(
                one((2, 2, 3, 4)), one((*_NAMES, "*", "o", "orders-")), one((3, 3, 4)),
                one((*_PRINCIPALS, "User:*")), one(("*", "*", "10.0.0.1", "10.0.0.0/8")),
                one((2, 3, 4, 7, 8, 12)), one((3, 3, 3, 2)),
            )
            for one in (drawn.choice,) * drawn.randrange(25)
        )
    )  # fmt: skip
    return _set_of(drawn, [DatedAcl(acl, added()) for acl in acls])


def _set_of(drawn: random.Random, dated: Sequence[DatedAcl]) -> AclSet:
    return AclSet(
        source="random", acls=tuple(dated), digest=digest_of(item.acl for item in dated),
        super_users=drawn.choice(((), ("User:admin",))),
        allow_everyone_if_no_acl_found=drawn.random() < 0.4,
        releases=drawn.choice((tuple(Release), *((each,) for each in Release))),
    )  # fmt: skip
