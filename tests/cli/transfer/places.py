"""Places of every kind that have given ACLs, and what a place has, read without the command."""

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.cli.acls.remote import KafkaAclAdmin
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.management.formats.catalogue import FORMATS
from tests.support.acls import acl
from tests.support.daemon_process import SECONDS_MAX
from tests.support.log_files import METADATA_VERSION, added, read_acls, write_checkpoint, write_log

CHECKPOINT: Final = "00000000000000000007-0000000001.checkpoint"

ODD: Final = (
    acl("User:ANONYMOUS", "DESCRIBE", topic="t"),
    acl("User:*", "ALL", topic="*", deny=True, host="0:0:0:0:0:0:0:1"),
    acl("User:a", "WRITE", topic="pay-", pattern="PREFIXED", deny=True),
    acl("User:a", "WRITE", topic="*", pattern="PREFIXED"),
    acl("User:CN=Zoé 日本,O=x", "READ", group="été \U0001f600", host="fe80:0:0:0:0:0:0:1"),
    acl("Group:a:b", "READ", topic="Topic:a:b"),
    acl("User:a, host=10.0.0.1", "READ", topic="t"),
    acl("User:", "READ", topic="t"),
    acl(" User:a ", "READ", topic=" t "),
    acl("User:yes", "READ", topic="no", host="10.0.0.1"),
    acl("User:tab\tnewline\nquote\"'`", "READ", topic="a\nb: - # {}[]"),
    acl("User:a", "ALTER", cluster=True),
    acl("User:a", "CREATE_TOKENS", user="User:b"),
    acl("User:a", "DESCRIBE", delegation_token="t"),
    acl("User:a", "TWO_PHASE_COMMIT", transactional_id="t"),
    acl("User:a", 99, topic="t"),
    acl("nobody", "READ", topic="t"),
    acl("User:a", "READ", topic=""),
    Acl(3, "a/b", 3, "User:a", "host.example", 3, 3),
    Acl(2, "t", 77, "User:a", "*", 3, 3),
    Acl(42, "t", 3, "User:a", "*", 3, 2),
    Acl(2, "t", 3, "User:a", "*", 3, 0),
    Acl(4, "other", 3, "User:a", "*", 3, 3),
)
"""ACLs that some place cannot hold, or that are easily read as another one."""


def random_acls(count: int, seed: int = 1) -> tuple[Acl, ...]:
    """Return ACLs with names that collide, of which some have codes of another version."""
    chooser = random.Random(seed)
    names = ["*", "a", "a-", "a/b", "kafka-cluster", "ü", "a,b", "a)", "User:a", "'", '"', "`: "]
    principals = ["User:a", "User:ANONYMOUS", "User:*", "Group:x,y", "User:a=b", "a", "User:(a)"]
    hosts = ["*", "10.0.0.1", "0:0:0:0:0:0:0:1", "h"]
    found = {
        Acl(
            chooser.choice((2, 2, 3, 4, 5, 6, 7, 9)), chooser.choice(names),
            chooser.choice((3, 3, 4, 4, 5)), chooser.choice(principals), chooser.choice(hosts),
            chooser.choice((*range(2, 16), 16)), chooser.choice((2, 3, 3, 4)),
        )
        for _ in range(count)
    }  # fmt: skip
    return tuple(sorted(found, key=str))


def make_place(kind: str, folder: Path, acls: Sequence[Acl]) -> tuple[str, frozenset[Acl]]:
    """Write ACLs to a new place of a kind; return its locator, and those that it can hold."""
    if kind == "log":
        write_log(folder / "log", [added(number, each) for number, each in enumerate(acls, 1)])
        return str(folder / "log"), frozenset(acls)
    if kind == "checkpoint":
        records = [added(number, each) for number, each in enumerate(acls, 1)]
        return str(write_checkpoint(folder, 7, [METADATA_VERSION, *records])), frozenset(acls)
    written = FORMATS[kind].write(acls)
    (folder / "acls").write_text(written.text, encoding="utf-8", newline="")
    return f"{kind}:{folder / 'acls'}", frozenset(acls) - {each.acl for each in written.losses}


def new_target(kind: str, folder: Path) -> str:
    """Return the locator of a place that does not exist yet."""
    if kind == "log":
        return f"{folder / 'target'}/"
    return str(folder / CHECKPOINT) if kind == "checkpoint" else f"{kind}:{folder / 'target'}"


def read_place(kind: str, locator: str) -> frozenset[Acl]:
    if kind == "cluster":
        return frozenset(read_cluster(locator.removeprefix("kafka://")))
    if kind in ("log", "checkpoint"):
        return frozenset(read_acls(Path(locator)).values())
    text = Path(locator.removeprefix(f"{kind}:")).read_bytes().decode()
    return frozenset(FORMATS[kind].read(text).acls)


def read_cluster(address: str) -> list[Acl]:

    async def describe(admin: KafkaAclAdmin) -> list[Acl]:
        return await admin.describe(AclFilter())

    return trio.run(_with_admin, address, describe)


def change_cluster(address: str, *, create: Iterable[Acl] = (), clear: bool = False) -> None:
    """Delete all ACLs of a cluster if ``clear``, then create some."""

    async def change(admin: KafkaAclAdmin) -> list[Acl]:
        if clear:
            await admin.delete([AclFilter()])
        if acls := list(create):
            await admin.create(acls)
        return []

    trio.run(_with_admin, address, change)


async def _with_admin(
    address: str, use: Callable[[KafkaAclAdmin], Awaitable[list[Acl]]]
) -> list[Acl]:
    host, _, port = address.rpartition(":")
    settings = ClientSettings(bootstrap=[Address(host, int(port))])
    with trio.fail_after(SECONDS_MAX):
        async with KafkaClient(settings, lambda _: None) as client:
            return await use(KafkaAclAdmin(client))
