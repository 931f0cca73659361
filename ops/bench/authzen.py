"""Decisions over HTTP: the daemon's AuthZEN endpoints and Open Policy Agent, with the same ACLs.

**Invariant:** before anything is timed, each server has given the answer of ``acl.decision`` to
every question.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from authorizerd.acl.model import Operation, Question, ResourceType
from ops.bench import opa_peer
from ops.bench.daemon_process import (
    PATIENT,
    DaemonProcess,
    ready_daemon,
    write_token,
)
from ops.bench.figures import Absent, Line, make_peer
from ops.bench.http_surface import Load, Server, ServerFigures, Surface
from ops.bench.opa_peer import ready_opa
from ops.bench.processes import ProcessError
from ops.bench.sets import AclSet

BATCH: Final = 100
LOADS: Final = (
    *(Load(connections=connections, each=1) for connections in (1, 16, 64)),
    *(Load(connections=connections, each=BATCH) for connections in (1, 16)),
)
UNCACHED: Final = Load(connections=16, each=BATCH)
WITH_TOKEN: Final = tuple(Load(connections=16, each=each) for each in (1, BATCH))
AUDITED: Final = tuple(Load(connections=16, each=each) for each in (1, BATCH))

_DRAIN_SECONDS: Final = 0.1
_DROPPED: Final = 'authorizerd_audit_dropped_total{reason="queue"}'
_WRITTEN: Final = "authorizerd_audit_written_total"


def _format(question: Question) -> dict[str, Any]:
    return {
        "subject": {"type": "user", "id": question.principal.removeprefix("User:")},
        "action": {"name": Operation(question.operation).name},
        "resource": {
            "type": ResourceType(question.resource_type).name.lower(),
            "id": question.resource_name,
        },
        "context": {"host": question.host},
    }


SURFACE: Final = Surface(
    name="AuthZEN",
    one_path="/access/v1/evaluation",
    many_path="/access/v1/evaluations",
    one=_format,
    many=lambda evaluations: {"evaluations": evaluations},
    is_allowed=lambda answer: answer["decision"] is True,
)

UNCACHED_SURFACE: Final = replace(
    SURFACE, many=lambda evaluations: {"context": {}, "evaluations": evaluations}
)
"""Requests that set a default value: the answer cache never answers such requests."""


def _format_as_plugin(question: Question) -> dict[str, Any]:
    """Return the question as Kafka's OPA plugin sends it."""
    principal_type, _, name = question.principal.partition(":")
    return {
        "input": {
            "requestContext": {
                "clientAddress": f"/{question.host}",
                "header": {"name": {"clientId": "bench", "correlationId": 5, "requestApiKey": 1}},
                "listenerName": "PLAINTEXT",
                "principal": {"principalType": principal_type, "name": name},
                "securityProtocol": "PLAINTEXT",
            },
            "action": {
                "resourcePattern": {
                    "resourceType": ResourceType(question.resource_type).name,
                    "name": question.resource_name,
                    "patternType": "LITERAL",
                    "unknown": False,
                },
                "operation": Operation(question.operation).name,
                "resourceReferenceCount": 1,
                "logIfAllowed": True,
                "logIfDenied": True,
            },
        }
    }


PLUGIN: Final = Surface(
    name="OPA's shape",
    one_path="/v1/data/kafka/authz/allow",
    # The plugin has no batches: only loads of one question per request use it.
    many_path="",
    one=_format_as_plugin,
    many=lambda inputs: {},
    is_allowed=lambda answer: answer["result"] is True,
)


def measure_http(
    acl_set: AclSet, expected: str, log_dir: Path, directory: Path, seconds: float
) -> list[Line]:
    """Return the lines of HTTP, ``seconds`` for each load.

    Args:
        expected: an A or a D for each question of the set.
        log_dir: contains a checkpoint of the set.

    Raises:
        DisagreementError: a server answers a question differently.
        ProcessError: the daemon failed.
    """
    questions = list(acl_set.questions())
    lines: list[Line] = []
    # The servers run one after the other, since they would share the machine's cores.
    with ready_opa(directory, acl_set.acls()) as opa:
        if isinstance(opa, Server):
            opa.check(questions, expected)
        theirs = [_drive_peer(opa, questions, load, directory, seconds) for load in LOADS]
    with ready_daemon(directory, log_dir, PATIENT) as daemon:
        server = _checked(daemon, questions, expected)
        for load, their in zip(LOADS, theirs, strict=True):
            figures = server.drive(questions, load, directory, seconds)
            lines += _lines(f"AuthZEN, {load}", figures, their)
        plugin = _checked(daemon, questions, expected, PLUGIN)
        for load, their in zip(LOADS, theirs, strict=True):
            if load.each == 1:
                figures = plugin.drive(questions, load, directory, seconds)
                lines += _lines(f"OPA's shape, {load}", figures, their)
        uncached = _checked(daemon, questions, expected, UNCACHED_SURFACE)
        figures = uncached.drive(questions, UNCACHED, directory, seconds)
        # The last of LOADS has the same connections and questions as UNCACHED.
        lines += _lines(f"AuthZEN, {UNCACHED}, nothing remembered", figures, theirs[-1])
    lines += _measure_with_token(questions, expected, log_dir, directory, seconds)
    return lines + _measure_audited(questions, expected, log_dir, directory, seconds)


def _measure_with_token(
    questions: Sequence[Question], expected: str, log_dir: Path, directory: Path, seconds: float
) -> list[Line]:
    """Return the lines of a daemon that requires a token."""
    settings, token_file = write_token(directory)
    lines: list[Line] = []
    with ready_daemon(directory, log_dir, {**PATIENT, **settings}) as daemon:
        server = _checked(daemon, questions, expected, token_file=token_file)
        for load in WITH_TOKEN:
            figures = server.drive(questions, load, directory, seconds)
            lines += _lines(f"AuthZEN, {load}, with a token", figures, None)
    return lines


def _measure_audited(
    questions: Sequence[Question], expected: str, log_dir: Path, directory: Path, seconds: float
) -> list[Line]:
    """Return the lines of a daemon that audits every decision."""
    audit_log = directory / "audit.log"
    settings = {"authorizerd.audit.log": str(audit_log), "authorizerd.audit.level": "DEBUG"}
    lines: list[Line] = []
    with ready_daemon(directory, log_dir, {**PATIENT, **settings}) as daemon:
        server = _checked(daemon, questions, expected)
        for load in AUDITED:
            before = _audited(daemon)
            what = f"AuthZEN, {load}, all audited"
            lines += _lines(what, server.drive(questions, load, directory, seconds), None)
            after = _audited(daemon)
            lines += [
                Line(what=f"{what}: audit lines {outcome}", unit="", ours=after[at] - before[at])
                for at, outcome in enumerate(("written", "dropped"))
            ]
    audit_log.unlink()
    return lines


def _audited(daemon: DaemonProcess) -> tuple[float, float]:
    """Return the number of written and of dropped audit lines, once the queue is empty."""
    # No count equals -1, so the loop takes at least two readings.
    counts = (-1.0, -1.0)
    while counts != (now := (daemon.metric(_WRITTEN), daemon.metric(_DROPPED))):
        counts = now
        time.sleep(_DRAIN_SECONDS)
    return counts


def _drive_peer(
    peer: Server | Absent,
    questions: Sequence[Question],
    load: Load,
    directory: Path,
    seconds: float,
) -> ServerFigures | Absent:
    if isinstance(peer, Absent):
        return peer
    try:
        return peer.drive(questions, load, directory, seconds)
    except ProcessError as error:
        return Absent(str(error))


def _checked(
    daemon: DaemonProcess,
    questions: Sequence[Question],
    expected: str,
    surface: Surface = SURFACE,
    token_file: Path | None = None,
) -> Server:
    server = Server(
        surface=surface,
        host=daemon.decision_http,
        process_id=daemon.process_id,
        token_file=token_file,
    )
    server.check(questions, expected)
    return server


def _lines(what: str, ours: ServerFigures, theirs: ServerFigures | Absent | None) -> list[Line]:
    lines = []
    for field, shown, unit in (
        ("decisions_per_second", "decisions", "/s"),
        ("p50_ms", "p50", "ms"),
        ("p99_ms", "p99", "ms"),
        ("cpu_us", "CPU for a decision", "µs"),
    ):
        pick = attrgetter(field)
        lines.append(
            Line(
                what=f"{what}: {shown}",
                unit=unit,
                ours=pick(ours),
                peer=None if theirs is None else make_peer(opa_peer.NAME, theirs, pick),
                more_is_better=unit == "/s",
            )
        )
    return lines
