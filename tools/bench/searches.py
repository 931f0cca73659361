"""Searches, explanations, the past and listings, in process and over HTTP, during decisions."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Question
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.names import find_names
from authorizerd.acl.search.resources import find_resources
from authorizerd.acl.search.subjects import find_subjects
from authorizerd.acl.snapshot import AclSnapshot
from tools.bench.creations import create_plan
from tools.bench.figures import Absent, MeasurementError, Row, percentile_rows, rows
from tools.bench.peers import OPENFGA, is_expressible, make_search, ready_openfga
from tools.bench.protocols import ANSWERED, post
from tools.bench.run import Run, write_checkpoint
from tools.bench.sender import Plan, Report, send, send_together
from tools.bench.servers import AUTHZEN, SETTINGS, Server, ask_once, is_allowed
from tools.bench.sets import wide
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon, write_token

PAGE: Final = 1000
"""Results per page: the daemon's maximum, and OpenFGA's default."""
RATE: Final = 400.0
"""Decisions per second during other work."""
_OFFSET: Final = "authorizerd_snapshot_offset"
_BUSY: Final = "503"
_SEARCHES_TAKE_LONG: Final = {"authorizerd.search.timeout.ms": "60000"}
_IN_PROCESS: Final[Mapping[str, Callable[[AclSnapshot, Question], object]]] = {
    "who can": lambda snapshot, it: find_subjects(
        snapshot, SETTINGS, it.operation, it.resource_type, it.resource_name, limit=PAGE
    ),
    "what can, patterns": lambda snapshot, it: find_resources(
        snapshot, SETTINGS, it.principal, it.operation, it.resource_type, limit=PAGE
    ),
    "what can, names": lambda snapshot, it: find_names(
        snapshot, SETTINGS, it.principal, it.host, it.operation, it.resource_type, (), limit=PAGE
    ),
    "can": lambda snapshot, it: find_actions(
        snapshot, SETTINGS, it.principal, it.resource_type, it.resource_name
    ),
    "explain": lambda snapshot, it: explain_fully(snapshot, SETTINGS, it),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path of the decision port, and the (nested) field of an evaluation that requests omit.

    If ``of_past``, requests are about earlier moments.
    """

    path: str
    left_out: tuple[str, str] | None = None
    of_past: bool = False

    def format(self, question: Question, as_of: int = 0) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = AUTHZEN.one(question)
        if self.left_out:
            outer, name = self.left_out
            del (body[outer] if name else body)[name or outer]
        if self.of_past:
            body["context"]["as_of"] = as_of
        return body

    def requests(
        self, daemon: DaemonProcess, questions: Sequence[Question], past: range = range(1)
    ) -> list[bytes]:
        """Return the requests about the questions, each at a different moment of ``past``."""
        host, token = daemon.decision_http, daemon.token
        if self is LISTING:
            authorization = f"Authorization: Bearer {token}\r\n"
            return [f"GET {self.path} HTTP/1.1\r\nHost: {host}\r\n{authorization}\r\n".encode()]
        moments = zip(questions, cycle(past), strict=False)
        bodies = (msgspec.json.encode(self.format(*moment)) for moment in moments)
        return [post(host, self.path, body, token) for body in bodies]


DECISION: Final = Endpoint(AUTHZEN.one_path)
WHO_CAN: Final = Endpoint("/access/v1/search/subject", ("subject", "id"))
WHAT_CAN: Final = Endpoint("/access/v1/search/resource", ("resource", "id"))
EXPLAIN: Final = Endpoint("/v1/explain")
LISTING: Final = Endpoint("/v1/acls")
ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "who can": WHO_CAN,
    "what can": WHAT_CAN,
    "can": Endpoint("/access/v1/search/action", ("action", "")),
    "explain": EXPLAIN,
    "as of": Endpoint(AUTHZEN.one_path, of_past=True),
    "history": Endpoint("/v1/history", of_past=True),
    "a listing of all ACLs": LISTING,
}


def trust(directory: Path) -> tuple[Mapping[str, str], str]:
    """Return a token, and settings that let its caller do everything.

    Clients of Kafka listeners may do everything as well. Only known callers may list ACLs.
    """
    settings, token = write_token(directory)
    holder = settings["super.users"]
    more = {"super.users": f"User:ANONYMOUS;{holder}", "authorizerd.callers.read": holder}
    return {**PATIENT, **_SEARCHES_TAKE_LONG, **settings, **more}, token


def measure_searches(run: Run) -> Iterator[Row]:
    """Measure searches in process, over HTTP during decisions, and compared with OpenFGA."""
    acl_set, place = run.pick(wide(50_000, 10), wide(1000, 2)), run.new_place("search")
    questions = [*acl_set.questions()]
    few = questions[: run.pick(100, 3)]
    yield from _measure_in_process(build(acl_set.added()), few)
    settings, token = trust(place)
    with ready_daemon(place, run.copy_log(acl_set, place), settings, token=token) as daemon:
        yield from measure_beside(run, f"HTTP, {acl_set.name}", daemon, questions)
    yield from _measure_beside_openfga(run)


def _measure_in_process(snapshot: AclSnapshot, questions: Sequence[Question]) -> Iterator[Row]:
    """Yield the CPU time of each search."""
    gc.freeze()  # as the query process does once it has loaded
    for name, search in _IN_PROCESS.items():
        times_ms = []
        for question in questions:
            began = time.thread_time()
            search(snapshot, question)
            times_ms.append((time.thread_time() - began) * 1000)
        what = f"in process, {len(snapshot.acls):,} ACLs: {name}"
        yield from percentile_rows(what, times_ms, of="CPU")


def measure_beside(
    run: Run, where: str, daemon: DaemonProcess, questions: Sequence[Question],
    names: Sequence[str] = tuple(ENDPOINTS),
) -> Iterator[Row]:  # fmt: skip
    """Yield the times of decisions alone, and during each long-running question of one client.

    ACLs are created first, so that there is a past: each question about the past is about the
    moment before the creation of a different one of these ACLs.
    """
    before, changes = int(daemon.metric(_OFFSET)), run.pick(500, 5)
    send(create_plan(daemon.kafka, "past", changes / 200, rate=200.0))
    past = range(before, int(daemon.metric(_OFFSET)))
    if not past:
        raise MeasurementError("the ACLs before the questions about the past were not created")
    lead, seconds = run.pick((0.4, 4.0), (0.0, 0.2))
    decisions = Plan(
        address=daemon.decision_http, requests=DECISION.requests(daemon, questions, past),
        rate=RATE, seconds=seconds + lead, skipped_seconds=lead,
    )  # fmt: skip
    calm, of = send(decisions).times_ms, "decisions meanwhile"
    yield from percentile_rows(f"{where}: nothing", calm, of=of)
    for name in names:
        what, requests = f"{where}: {name}", ENDPOINTS[name].requests(daemon, questions, past)
        asker = Plan(
            address=daemon.decision_http, requests=requests, connections=1, seconds=seconds + lead,
            may_refuse=True,
        )  # fmt: skip
        yield from rows_of_asker(what, send(asker))
        beside, asked = send_together(decisions, asker)
        yield from percentile_rows(what, beside.times_ms, calm=calm, of=of)
        yield from rows(what, ("answers meanwhile", "", asked.answered))


def rows_of_asker(what: str, report: Report, of: str = "") -> Iterator[Row]:
    """Yield the times of questions that one client asked in turn, and the number of 503 answers."""
    if unexpected := set(report.outcomes) - {ANSWERED, _BUSY}:
        raise MeasurementError(f"{what}: answered with {unexpected}")
    if report.times_ms:
        yield from percentile_rows(what, report.times_ms, of=of)
    if report.refused:
        metric = f"{of}, refused with {_BUSY}".removeprefix(", ")
        yield from rows(what, (metric, "", report.refused))


def _measure_beside_openfga(run: Run) -> Iterator[Row]:
    """Yield the search times of both servers, with the ACLs that OpenFGA can express.

    Both must find the same users for each question. OpenFGA may find fewer objects, since its time
    is limited, but all of them must be allowed.
    """
    acl_set, place = run.pick(wide(50_000, 10), wide(1000, 2)), run.new_place("search-openfga")
    literals = [each for each in acl_set.added() if is_expressible(each.acl)]
    write_checkpoint(place / "log", literals)
    snapshot = build(literals)
    allowed = (each for each in acl_set.questions() if is_allowed(snapshot, each))
    questions = [*islice(allowed, run.pick(100, 3))]
    patient = {**PATIENT, **_SEARCHES_TAKE_LONG}
    with ExitStack() as stack:
        acls = (each.acl for each in literals)
        peer = stack.enter_context(ready_openfga(place / "theirs", acls))
        daemon = stack.enter_context(ready_daemon(place / "ours", place / "log", patient))
        for name, endpoint in (("who can", WHO_CAN), ("what can", WHAT_CAN)):
            ours_ms: list[float] = []
            theirs_ms: list[float] | Absent = peer if isinstance(peer, Absent) else []
            for question in questions:
                body = endpoint.format(question)
                taken, answer = ask_once(daemon.decision_http, endpoint.path, body)
                ours_ms.append(taken)
                found = {each["id"] for each in answer["results"]}
                if isinstance(peer, Server) and isinstance(theirs_ms, list):
                    taken, theirs = _search_peer(peer, endpoint, question)
                    check_found(endpoint, question, snapshot, found, theirs)
                    theirs_ms.append(taken)
                    if len(theirs) < len(found):
                        reason = f"found {len(theirs)} of {len(found)} before its time limit"
                        theirs_ms = Absent(reason)
            what = f"HTTP, {len(literals):,} literal ACLs: {name}"
            yield from percentile_rows(what, ours_ms, OPENFGA, theirs_ms)


def _search_peer(peer: Server, endpoint: Endpoint, question: Question) -> tuple[float, set[str]]:
    for_users = endpoint is WHO_CAN
    taken, answer = ask_once(peer.host, *make_search(peer.api, question, for_users=for_users))
    if for_users:
        return taken, {each["object"]["id"] for each in answer["users"]}
    return taken, {each.partition(":")[2] for each in answer["objects"]}


def check_found(
    endpoint: Endpoint, asked: Question, snapshot: AclSnapshot, ours: set[str], theirs: set[str]
) -> None:
    """Raise MeasurementError if OpenFGA finds something that is not allowed."""
    unexpected = theirs - ours
    if endpoint is WHAT_CAN:
        named = {name: msgspec.structs.replace(asked, resource_name=name) for name in theirs}
        unexpected = {name for name, each in named.items() if not is_allowed(snapshot, each)}
    if unexpected:
        raise MeasurementError(f"{OPENFGA} finds {min(unexpected)!r}: {asked}")
