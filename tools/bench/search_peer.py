"""Searches over HTTP beside OpenFGA's, with the ACLs that OpenFGA's model can express.

**Invariant:** a peer's figure counts only if both find the same users for each question, and the
same number of objects, all of them allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from tools.bench import openfga_peer
from tools.bench.authzen import SURFACE
from tools.bench.checkpoint import write_checkpoint
from tools.bench.daemon_process import ready_daemon
from tools.bench.decisions import DisagreementError
from tools.bench.figures import Absent, Line, make_peer, percentile
from tools.bench.http_surface import Server
from tools.bench.openfga_peer import (
    is_expressible,
    make_object_search,
    make_user_search,
    ready_openfga,
)
from tools.bench.processes import ProcessError
from tools.bench.sets import AclSet

_SETTINGS: Final = AuthorizerSettings()
_TIMEOUT_SECONDS: Final = 60.0
_OK: Final = 200


class Endpoint(msgspec.Struct, frozen=True):
    """A path of the decision port, and the field of an evaluation that its requests leave out."""

    path: str
    left_out: tuple[str, ...] = ()

    def format(self, question: Question) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = SURFACE.one(question)
        if self.left_out:
            *outer, name = self.left_out
            inner = body
            for each in outer:
                inner = inner[each]
            del inner[name]
        return body


SUBJECTS: Final = Endpoint("/access/v1/search/subject", ("subject", "id"))
RESOURCES: Final = Endpoint("/access/v1/search/resource", ("resource", "id"))


@dataclass(frozen=True, slots=True)
class _Search:
    """A search of both servers. Each ``read`` returns the ids in an answer."""

    name: str
    ours: Endpoint
    make_theirs: Callable[[Any, Question], tuple[str, dict[str, Any]]]
    read_theirs: Callable[[Any], list[str]]


_SEARCHES: Final = (
    _Search(
        "who can",
        SUBJECTS,
        make_user_search,
        lambda answer: [each["object"]["id"] for each in answer["users"]],
    ),
    _Search(
        "what can",
        RESOURCES,
        make_object_search,
        lambda answer: [each.partition(":")[2] for each in answer["objects"]],
    ),
)


def measure_beside_openfga(
    acl_set: AclSet, directory: Path, settings: Mapping[str, str], calls: int
) -> Iterator[Line]:
    """Yield the median time of ``calls`` of each search.

    Raises:
        DisagreementError: OpenFGA finds what is not allowed, or other users than the daemon.
        ProcessError: the daemon failed.
    """
    literals = [each for each in acl_set.added() if is_expressible(each.acl)]
    write_checkpoint(directory / "log", iter(literals))
    snapshot = build(literals)
    questions = [
        each
        for each in acl_set.questions()
        if authorize(snapshot, _SETTINGS, *msgspec.structs.astuple(each))
    ][:calls]
    where = f"search over HTTP, {len(literals):,} literal ACLs"
    with ExitStack() as stack:
        acls = (each.acl for each in literals)
        theirs = stack.enter_context(ready_openfga(directory / "theirs", acls))
        daemon = stack.enter_context(ready_daemon(directory / "ours", directory / "log", settings))
        for search in _SEARCHES:
            times = _compare(search, questions, snapshot, daemon.decision_http, theirs)
            yield Line(
                what=f"{where}: {search.name}, p50",
                unit="ms",
                ours=percentile(sorted(times[0]), 50),
                peer=make_peer(
                    openfga_peer.NAME, times[1], lambda theirs: percentile(sorted(theirs), 50)
                ),
            )


def _compare(
    search: _Search,
    questions: list[Question],
    snapshot: AclSnapshot,
    host: str,
    peer: Server | Absent,
) -> tuple[list[float], list[float] | Absent]:
    """Return the times of both servers in ms; they are asked in turn."""
    our_ms: list[float] = []
    their_ms: list[float] = []
    reason = peer if isinstance(peer, Absent) else None
    for question in questions:
        taken, answer = _post(host, search.ours.path, search.ours.format(question))
        our_ms.append(taken)
        ours = [each["id"] for each in answer["results"]]
        if isinstance(peer, Absent) or reason is not None:
            continue
        try:
            taken, answer = _post(peer.host, *search.make_theirs(peer.surface, question))
        except ProcessError as error:
            reason = Absent(str(error))
            continue
        their_ms.append(taken)
        theirs = search.read_theirs(answer)
        check_found(search.ours, question, snapshot, ours, theirs)
        if len(theirs) < len(ours):
            reason = Absent(f"found only {len(theirs)} of {len(ours)} before its time limit")
    return our_ms, reason or their_ms


def check_found(
    searched: Endpoint,
    question: Question,
    snapshot: AclSnapshot,
    ours: list[str],
    theirs: list[str],
) -> None:
    """Raise DisagreementError if OpenFGA finds something that is not allowed."""
    if searched is SUBJECTS:
        unexpected = set(theirs) - set(ours)
    else:
        unexpected = {
            name
            for name in theirs
            if not authorize(
                snapshot,
                _SETTINGS,
                question.principal,
                question.host,
                question.operation,
                question.resource_type,
                name,
            )
        }
    if unexpected:
        raise DisagreementError(f"{openfga_peer.NAME} finds {min(unexpected)!r}: {question}")


def _post(host: str, path: str, body: object) -> tuple[float, Any]:
    """Return the time of a request in ms, and its answer.

    Raises:
        ProcessError: the answer has another status than 200.
    """
    with closing(HTTPConnection(host, timeout=_TIMEOUT_SECONDS)) as connection:
        connection.connect()
        encoded = msgspec.json.encode(body)
        began_ns = time.perf_counter_ns()
        connection.request("POST", path, encoded, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        taken_ms = (time.perf_counter_ns() - began_ns) / 1e6
    if answer.status != _OK:
        raise ProcessError(f"{path}: {answer.status} {text[:80]!r}")
    return taken_ms, msgspec.json.decode(text)
