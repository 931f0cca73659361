"""Searches and explanations: in process, and over HTTP, with decisions meanwhile."""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Question
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.names import find_names
from authorizerd.acl.search.resources import find_resources
from authorizerd.acl.search.subjects import find_subjects
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.protocol.errors import DecodeError
from tools.bench.authzen import SURFACE, copy_log, server_of
from tools.bench.closed_loop import LoadError, LoadReport
from tools.bench.daemon_process import PATIENT, DaemonProcess, ready_daemon
from tools.bench.figures import Line, percentile, supported_percent
from tools.bench.http_generator import HttpLoad, generate, generator_for
from tools.bench.http_surface import Server
from tools.bench.kafka_load import Client, create_acls
from tools.bench.processes import ProcessError
from tools.bench.search_peer import RESOURCES, SUBJECTS, Endpoint, measure_beside_openfga
from tools.bench.sets import AclSet

PAGE: Final = 1000
"""The results of one page: the maximum of the daemon, and OpenFGA's default."""
_SETTINGS: Final = AuthorizerSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is measured.

    Attributes:
        calls: of each search in process; each is about another question.
        changes: how many changes of ACLs precede the load over HTTP. Each question about the past
            is about the moment before another one.
        rounds: how often they are repeated.
        seconds: of each load over HTTP.
        settings: of the daemon.
        peer_calls: of each search beside OpenFGA. 0 leaves it out: it takes minutes to read a set.
    """

    calls: int
    rounds: int
    seconds: float
    peer_calls: int
    changes: int
    settings: Mapping[str, str] = field(default_factory=dict)


FULL: Final = Extent(calls=50, rounds=2, seconds=12.0, peer_calls=100, changes=500)
QUICK: Final = Extent(calls=3, rounds=1, seconds=0.1, peer_calls=3, changes=3, settings=PATIENT)


def _who_can(snapshot: AclSnapshot, question: Question) -> object:
    return find_subjects(
        snapshot,
        _SETTINGS,
        question.operation,
        question.resource_type,
        question.resource_name,
        limit=PAGE,
    )


def _what_can(snapshot: AclSnapshot, question: Question) -> object:
    return find_resources(
        snapshot,
        _SETTINGS,
        question.principal,
        question.operation,
        question.resource_type,
        limit=PAGE,
    )


def _names(snapshot: AclSnapshot, question: Question) -> object:
    return find_names(
        snapshot,
        _SETTINGS,
        question.principal,
        question.host,
        question.operation,
        question.resource_type,
        (),
        limit=PAGE,
    )


def _can(snapshot: AclSnapshot, question: Question) -> object:
    return find_actions(
        snapshot,
        _SETTINGS,
        question.principal,
        question.resource_type,
        question.resource_name,
    )


def _explain(snapshot: AclSnapshot, question: Question) -> object:
    return explain_fully(snapshot, _SETTINGS, question)


IN_PROCESS: Final[Mapping[str, Callable[[AclSnapshot, Question], object]]] = {
    "who can": _who_can,
    "what can, patterns": _what_can,
    "what can, names": _names,
    "can": _can,
    "explain": _explain,
}


DECISIONS: Final = Endpoint(SURFACE.one_path)
ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "who can": SUBJECTS,
    "what can": RESOURCES,
    "can": Endpoint("/access/v1/search/action", ("action",)),
    "explain": Endpoint("/v1/explain"),
}
_SUPER_USERS: Final = "super.users"
_ANONYMOUS: Final = "User:ANONYMOUS"
_OFFSET: Final = "authorizerd_snapshot_offset"


def measure_searches(
    acl_set: AclSet, log_dir: Path, directory: Path, extent: Extent
) -> Iterator[Line]:
    """Yield the lines; ``log_dir`` has a checkpoint of the set.

    Raises:
        DisagreementError: OpenFGA's answer contains something that is not allowed.
        ProcessError: the daemon failed.
    """
    shutil.rmtree(directory, ignore_errors=True)  # bodies of an earlier run
    directory.mkdir(parents=True)
    yield from _measure_in_process(acl_set, extent)
    may_create = {_SUPER_USERS: _ANONYMOUS, **extent.settings}
    with ready_daemon(directory, copy_log(log_dir, directory), may_create) as daemon:
        earlier = _change_acls(daemon, extent.changes)
        yield from _measure_http(acl_set, server_of(daemon), earlier, directory, extent)
    if extent.peer_calls:
        settings = extent.settings
        yield from measure_beside_openfga(
            acl_set, directory / "literals", settings, extent.peer_calls
        )


def _measure_in_process(acl_set: AclSet, extent: Extent) -> Iterator[Line]:
    """Yield the CPU time of each search."""
    snapshot = build(acl_set.added())
    gc.freeze()  # as the query process does once it has loaded
    questions = list(acl_set.questions())[: extent.calls]
    where = f"search in process, {len(snapshot.acls):,} ACLs"
    for name, search in IN_PROCESS.items():
        times_ms: list[float] = []
        for _ in range(extent.rounds):
            for question in questions:
                began = time.thread_time()
                search(snapshot, question)
                times_ms.append((time.thread_time() - began) * 1000)
        times_ms.sort()
        yield Line(what=f"{where}: {name}, CPU, p50", unit="ms", ours=percentile(times_ms, 50))


def _change_acls(daemon: DaemonProcess, changes: int) -> range:
    """Create ACLs one by one; return an offset of the log before each of them.

    Raises:
        ProcessError: an ACL was not created.
    """
    before = int(daemon.metric(_OFFSET))
    try:
        with closing(Client(next(iter(daemon.listeners.values())))) as client:
            create_acls(client, "past", changes, 1)
    except (LoadError, DecodeError, OSError) as error:
        raise ProcessError(f"createAcls before the searches: {error}") from error
    return range(before, before + changes)


class _InThePast:
    """Evaluations, each as of another offset."""

    path = DECISIONS.path

    def __init__(self, offsets: range) -> None:
        self._offsets: Final = cycle(offsets)

    def format(self, question: Question) -> dict[str, Any]:
        """Return the body of a request."""
        body = DECISIONS.format(question)
        body.setdefault("context", {})["as_of"] = next(self._offsets)
        return body


def _measure_http(
    acl_set: AclSet, server: Server, earlier: range, directory: Path, extent: Extent
) -> Iterator[Line]:
    """Yield the times of each search alone, and of decisions while it runs without pause."""
    loads = _Loads(server, list(acl_set.questions()), directory, extent.seconds)
    alone = loads.drive("decision", DECISIONS)
    where = f"search over HTTP ({generator_for(extent.seconds)}), {acl_set.name}"
    asked: dict[str, Endpoint | _InThePast] = {**ENDPOINTS}
    asked[f"as of {len(earlier)} moments"] = _InThePast(earlier)
    for name, endpoint in asked.items():
        report = loads.drive(name, endpoint)
        # The two may be the same.
        for percent in sorted({50, supported_percent(report.timed)}):
            yield Line(what=f"{where}: {name}, p{percent}", unit="ms", ours=report.at(percent))
        with ThreadPoolExecutor(1) as threads:
            searching = threads.submit(loads.drive, name, endpoint)
            during = loads.drive("decision", DECISIONS)
            searching.result()
        percent = supported_percent(min(during.timed, alone.timed))
        yield Line(
            what=f"{where}: decisions during {name} without pause, p{percent}",
            unit="ms",
            ours=during.at(percent),
            calm=alone.at(percent),
        )


class _Loads:
    """Loads on one connection; each is generated by another process."""

    def __init__(
        self, server: Server, questions: list[Question], directory: Path, seconds: float
    ) -> None:
        self._server: Final = server
        self._questions: Final = questions
        self._directory: Final = directory
        self._seconds: Final = seconds

    def drive(self, name: str, endpoint: Endpoint | _InThePast) -> LoadReport:
        """Ask again and again.

        Raises:
            ProcessError: a request failed or was refused.
        """
        bodies = self._directory / f"{name.replace(' ', '-')}.bodies"
        if not bodies.exists():
            lines = map(msgspec.json.encode, map(endpoint.format, self._questions))
            bodies.write_bytes(b"\n".join(lines))
        report = generate(
            HttpLoad(
                host=self._server.host,
                path=endpoint.path,
                bodies=bodies,
                first=0,
                connections=1,
                seconds=self._seconds,
            )
        )
        if report.refused:
            raise ProcessError(f"{endpoint.path}: {report.refused} requests were not answered")
        return report
