"""A Kafka cluster, or a daemon, through one of its listeners.

**Invariant:** an import only adds ACLs. All DENYs are acknowledged before the first request with an
ALLOW is sent, so the cluster never allows anything that is denied both before and after. The result
is verified in the cluster's own listing.

Source: KIP-140; Kafka 4.3 AclControlManager.createAcls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

import msgspec
import trio

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.grants.reading import join_notes
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.acl.snapshot import is_grant
from authorizerd.cli.acls.remote import creation_call
from authorizerd.cli.broker_acls import CREATION, BrokerReader, UseBrokers, run_on_brokers
from authorizerd.cli.errors import CommandError
from authorizerd.cli.program.ending import saying
from authorizerd.cli.transfer.model import (
    AclsFound,
    Draft,
    Written,
    draft_missing,
    find_cluster_fault,
)
from authorizerd.kafka_client.errors import RequestFailedError
from authorizerd.management.batches import split_joined
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

T = TypeVar("T")

VISIBLE_SECONDS_MAX: Final = 30.0
"""How long a broker may take to list ACLs acknowledged by the controller."""
_RETRY_FIRST_SECONDS: Final = 0.05
_RETRY_LAST_SECONDS: Final = 1.0
_REJECTED_SHOWN_MAX: Final = 10
_AGAIN: Final = "Run the command again: it adds only what is missing"
_REPEATABLE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.AUTHORIZER_NOT_READY)
_RIGHTS: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.SECURITY_DISABLED)
"""Errors that concern the whole request, although each ACL carries them."""


class ClusterPlace:
    """A cluster, as a source or a target."""

    kind = "cluster"
    is_complete = False
    is_standard_output = False

    def __init__(self, servers: str, command_config: str | None, name: str) -> None:
        self._servers = servers
        self._command_config = command_config
        self.name = name

    def read(self) -> AclsFound:
        return AclsFound(self.run(list_acls))

    @contextmanager
    def open(self) -> Iterator[ClusterPlace]:
        yield self  # a cluster cannot be locked

    def draft(self, found: AclsFound) -> Draft:
        return make_draft(found, self.run(list_acls))

    def write(self, draft: Draft, found: AclsFound) -> Written:
        if not draft.new:
            return Written(count=0, requests=0)
        progress = Progress()
        with saying(lambda: f"{_describe_certain(draft.new, progress)}. {_AGAIN}"):
            return self.run(partial(create_acls, acls=draft.new, progress=progress))

    def run(self, use: UseBrokers[T]) -> T:
        """Return what ``use`` returns. Each call opens a connection."""
        return run_on_brokers(self._servers, self._command_config, use, place=self.name)


async def list_acls(reader: BrokerReader) -> tuple[Acl, ...]:
    return tuple(acl for _, acl in (await reader.list_acls()).items())


def make_draft(found: AclsFound, present: Sequence[Acl]) -> Draft:
    """Return the ACLs missing in a cluster that has ``present``."""
    return draft_missing(found, present, find_cluster_fault)


class Progress(msgspec.Struct):
    """The results of the requests so far."""

    created: int = 0
    requests: int = 0
    failure: str = ""
    is_last_unknown: bool = False


async def create_acls(reader: BrokerReader, acls: Sequence[Acl], progress: Progress) -> Written:
    """Create ACLs that the cluster lacks, DENYs first. Stop at the first failed request.

    Args:
        progress: is updated after each request. A cancelled request may still be carried out.

    Raises:
        CommandError: the first request was rejected as a whole, so nothing was changed.
    """
    for batch in _split_requests(acls):
        progress.is_last_unknown = True
        await _create(reader, batch, progress)
        if progress.failure:
            break
    missing = await _find_missing(reader, acls, progress)
    return _report(acls, progress, missing)


def _split_requests(acls: Sequence[Acl]) -> Iterator[list[Acl]]:
    """Yield the ACLs of each request. None has both DENYs and ALLOWs, except notes of grants."""
    joined = join_notes(acls)
    for grants in (False, True):
        yield from split_joined(
            acl for each in joined if is_grant(each[0]) is grants for acl in each
        )


async def _create(reader: BrokerReader, batch: Sequence[Acl], progress: Progress) -> None:
    try:
        results = await reader.client.request(
            creation_call(batch),
            name="createAcls",
            errors=lambda each: [error for error in each if error and error.code in _REPEATABLE],
        )
    except RequestFailedError as error:
        progress.failure = str(reader.new_error(error, right=CREATION))
        return
    rejected = [
        (acl, error) for acl, error in zip(batch, results, strict=False) if error is not None
    ]
    if len(results) != len(batch):
        progress.failure = f"expected {len(batch)} results of CreateAcls, found {len(results)}"
        return
    progress.is_last_unknown = False
    if rejected and rejected[0][1].code in _RIGHTS:
        refused = reader.new_error(RequestFailedError(rejected[0][1]), right=CREATION)
        if not progress.requests:
            raise refused
        progress.failure = str(refused)
        return
    progress.requests += 1
    progress.created += len(batch) - len(rejected)
    if rejected:
        progress.failure = _describe_rejected(rejected)


def _describe_rejected(rejected: Sequence[tuple[Acl, ApiError]]) -> str:
    shown = "; ".join(f"{acl}: {error}" for acl, error in rejected[:_REJECTED_SHOWN_MAX])
    hidden = len(rejected) - _REJECTED_SHOWN_MAX
    more = f"; and {hidden} more" if hidden > 0 else ""
    return f"the cluster rejects {count_of(len(rejected), 'ACL')}: {shown}{more}"


async def _find_missing(
    reader: BrokerReader, acls: Sequence[Acl], progress: Progress
) -> frozenset[Acl] | None:
    """Return the ACLs that the cluster does not list; None if listing fails.

    A broker may list an ACL only some time after the controller acknowledged it. Notes do not
    count: a process that begins and ends grants may already have replaced one.
    """
    wanted = frozenset(acl for acl in acls if not is_note(acl))
    delay = _RETRY_FIRST_SECONDS
    missing: frozenset[Acl] | None = None
    with trio.move_on_after(VISIBLE_SECONDS_MAX):
        while True:
            try:
                missing = wanted.difference(await list_acls(reader))
            except CommandError as error:
                progress.failure = progress.failure or str(error)
                return None
            if not missing or progress.failure:
                return missing
            await trio.sleep(delay)
            delay = min(2 * delay, _RETRY_LAST_SECONDS)
    return missing


def _report(acls: Sequence[Acl], progress: Progress, missing: frozenset[Acl] | None) -> Written:
    if not progress.failure and not missing:
        request = count_of(progress.requests, "request")
        notes = (f"verified: the cluster lists all of them, after {request}",)
        return Written(count=len(acls), requests=progress.requests, notes=notes)
    failure = progress.failure or (
        f"the cluster has acknowledged all ACLs, but does not list {len(missing or ())} of them"
        f" after {VISIBLE_SECONDS_MAX:.0f} s: another client may have removed them"
    )
    if missing is None:
        done, count = _describe_certain(acls, progress), progress.created
    else:
        count = len(acls) - len(missing)
        done = f"the cluster now lists {count} of the {len(acls)} ACLs"
    failure = f"{failure}\n{done}. {_AGAIN}"
    return Written(count=count, requests=progress.requests, failure=failure)


def _describe_certain(acls: Sequence[Acl], progress: Progress) -> str:
    done = f"{progress.created} of {len(acls)} ACLs were definitely created"
    if progress.is_last_unknown:
        done += "; it is not known whether the last request was carried out"
    return done
