"""Decisions over HTTP: the daemon's AuthZEN endpoints and Open Policy Agent, with the same ACLs.

Both run at the same time with their default settings, and are asked in turn. The questions are
distinct: each load goes on where the server's last one ended.

**Invariant:** no figure is returned unless each server has given the answer of ``acl.decision`` to
every question that is checked. The checks come after the first load, which times a cold start.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from authorizerd.acl.model import Operation, Question, ResourceType
from tools.bench import opa_peer
from tools.bench.daemon_process import PATIENT, DaemonProcess, ready_daemon, write_token
from tools.bench.figures import Absent, Line
from tools.bench.http_surface import Asked, Load, Server, Surface
from tools.bench.opa_peer import ready_opa
from tools.bench.rounds import HttpExtent, HttpRounds, compare_loads
from tools.bench.sets import QUESTIONS, AclSet

BATCH: Final = 100
LOADS: Final = (
    *(Load(connections=connections, each=1) for connections in (1, 16, 64)),
    *(Load(connections=connections, each=BATCH) for connections in (1, 16)),
)
USUAL: Final = Load(connections=16, each=1)
USUAL_BATCHES: Final = Load(connections=16, each=BATCH)
WORKERS: Final = 2

FULL: Final = HttpExtent(rounds=3, seconds=3.0, warm_up=1.0, cold_seconds=2.0, loads=LOADS)
QUICK: Final = HttpExtent(
    rounds=1,
    seconds=0.1,
    warm_up=0.0,
    cold_seconds=0.1,
    loads=(USUAL_BATCHES,),
    settings=PATIENT,
)

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
    acl_set: AclSet, expected: str, log_dir: Path, directory: Path, extent: HttpExtent
) -> Iterator[Line]:
    """Yield the lines of HTTP.

    Args:
        acl_set: has many distinct questions.
        expected: an A or a D for each of the first questions of the set: those that are checked.
        log_dir: contains a checkpoint of the set.

    Raises:
        DisagreementError: a server answers a question differently.
        ProcessError: the daemon failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    questions = list(acl_set.questions())
    rounds = HttpRounds(Asked(questions, directory), expected, extent)
    with ExitStack() as stack:
        opa = stack.enter_context(ready_opa(directory, acl_set.acls()))
        ours = server_of(
            stack.enter_context(ready_daemon(directory / "daemon", log_dir, extent.settings))
        )
        cold = [*rounds.measure_cold("AuthZEN", ours, opa_peer.NAME, opa)]
        more = {**extent.settings, "authorizerd.workers": str(WORKERS)}
        copied = copy_log(log_dir, directory / "workers")
        workers = server_of(stack.enter_context(ready_daemon(directory / "workers", copied, more)))
        plugin = replace(ours, surface=PLUGIN)
        rounds.check(ours, opa, workers, plugin)
        yield from cold
        yield from _measure_loads(rounds, ours, workers, opa)
        our, their = rounds.measure(USUAL, plugin, opa)
        what = rounds.name("OPA's shape", USUAL)
        yield from compare_loads(what, our, opa_peer.NAME, their)
        (our,) = rounds.measure(USUAL, replace(ours, has_ids=True))
        what = f"{rounds.name('AuthZEN', USUAL)}, a new X-Request-ID in each request"
        yield from compare_loads(what, our, opa_peer.NAME, None)
        repeated = HttpRounds(Asked(questions[:QUESTIONS], directory, "-few"), expected, extent)
        our, their = repeated.measure(USUAL, ours, opa)
        what = repeated.name(f"AuthZEN, {QUESTIONS:,} questions repeated", USUAL)
        yield from compare_loads(what, our, opa_peer.NAME, their)
    yield from _measure_with_token(rounds, log_dir, directory / "token")
    yield from _measure_audited(rounds, log_dir, directory / "audited")


def _measure_loads(
    rounds: HttpRounds, ours: Server, workers: Server, opa: Server | Absent
) -> Iterator[Line]:
    """Yield the lines of each load: one worker, and two if there are connections for both."""
    for load in rounds.extent.loads:
        # One connection reaches only one worker.
        ours_too = (workers,) if load.connections > 1 else ()
        their, our, *of_workers = rounds.measure(load, opa, ours, *ours_too)
        yield from compare_loads(rounds.name("AuthZEN", load), our, opa_peer.NAME, their)
        for figures in of_workers:
            what = rounds.name(f"AuthZEN, {WORKERS} workers", load)
            yield from compare_loads(what, figures, opa_peer.NAME, their)


def _measure_with_token(rounds: HttpRounds, log_dir: Path, directory: Path) -> Iterator[Line]:
    """Yield the lines of a daemon that requires a token."""
    directory.mkdir(parents=True, exist_ok=True)
    settings, token_file = write_token(directory)
    with ready_daemon(directory, log_dir, {**rounds.extent.settings, **settings}) as daemon:
        server = replace(server_of(daemon), token_file=token_file)
        rounds.check(server)
        (figures,) = rounds.measure(USUAL, server)
        what = f"{rounds.name('AuthZEN', USUAL)}, with a token"
        yield from compare_loads(what, figures, opa_peer.NAME, None)


def _measure_audited(rounds: HttpRounds, log_dir: Path, directory: Path) -> Iterator[Line]:
    """Yield the lines of a daemon that audits every decision."""
    directory.mkdir(parents=True, exist_ok=True)
    audit_log = directory / "audit.log"
    settings = {"authorizerd.audit.log": str(audit_log), "authorizerd.audit.level": "DEBUG"}
    with ready_daemon(directory, log_dir, {**rounds.extent.settings, **settings}) as daemon:
        server = server_of(daemon)
        rounds.check(server)
        for load in (USUAL, USUAL_BATCHES):
            before = _audited(daemon)
            (figures,) = rounds.measure(load, server)
            after = _audited(daemon)
            what = f"{rounds.name('AuthZEN', load)}, all audited"
            yield from compare_loads(what, figures, opa_peer.NAME, None)
            for at, outcome in enumerate(("written", "dropped")):
                counted = after[at] - before[at]
                yield Line(what=f"{what}: audit lines {outcome}", unit="", ours=counted)
    audit_log.unlink()


def _audited(daemon: DaemonProcess) -> tuple[float, float]:
    """Return the number of written and of dropped audit lines, once the queue is empty."""
    # No count equals -1, so the loop takes at least two readings.
    counts = (-1.0, -1.0)
    while counts != (now := (daemon.metric(_WRITTEN), daemon.metric(_DROPPED))):
        counts = now
        time.sleep(_DRAIN_SECONDS)
    return counts


def server_of(daemon: DaemonProcess) -> Server:
    """Return a daemon as a server of AuthZEN."""
    return Server(surface=SURFACE, host=daemon.decision_http, process_id=daemon.process_id)


def copy_log(log_dir: Path, directory: Path) -> Path:
    """Copy a log for another daemon, since a daemon locks its log."""
    shutil.rmtree(directory / "log", ignore_errors=True)
    return Path(shutil.copytree(log_dir, directory / "log"))
