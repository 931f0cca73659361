"""Decisions over HTTP beside OpenFGA, with the questions that its model can answer.

**Invariant:** no figure is returned unless OpenFGA has given the answer of ``acl.decision`` to each
question that is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Question
from tools.bench import openfga_peer
from tools.bench.authzen import LOADS, USUAL, server_of
from tools.bench.daemon_process import PATIENT, ready_daemon
from tools.bench.decisions import collect_answers
from tools.bench.figures import Line
from tools.bench.http_surface import Asked
from tools.bench.openfga_peer import is_expressible, ready_openfga
from tools.bench.rounds import HttpExtent, HttpRounds, compare_loads
from tools.bench.sets import QUESTIONS, AclSet

FULL: Final = HttpExtent(rounds=2, seconds=2.0, warm_up=1.0, cold_seconds=0.0, loads=LOADS)
QUICK: Final = HttpExtent(
    rounds=1, seconds=0.1, warm_up=0.0, cold_seconds=0.0, loads=(USUAL,), settings=PATIENT
)


def measure_openfga(
    acl_set: AclSet, log_dir: Path, directory: Path, extent: HttpExtent
) -> Iterator[Line]:
    """Yield the lines; the daemon has all ACLs of the set, OpenFGA those that it can express.

    Raises:
        DisagreementError: OpenFGA answers a question differently.
        ProcessError: the daemon failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        theirs = stack.enter_context(ready_openfga(directory, acl_set.acls()))
        questions = answerable(acl_set)
        expected = collect_answers(build(acl_set.added()), questions[:QUESTIONS])
        rounds = HttpRounds(Asked(questions, directory), expected, extent)
        ours = server_of(stack.enter_context(ready_daemon(directory, log_dir, extent.settings)))
        rounds.check(ours, theirs)
        for load in extent.loads:
            their, our = rounds.measure(load, theirs, ours)
            what = rounds.name("AuthZEN, no prefixes", load)
            yield from compare_loads(what, our, openfga_peer.NAME, their)


def answerable(acl_set: AclSet) -> list[Question]:
    """Return the questions whose answer does not depend on an ACL that OpenFGA has no tuple for."""
    whole = build(acl_set.added())
    expressible = build(each for each in acl_set.added() if is_expressible(each.acl))
    settings = AuthorizerSettings()
    return [
        question
        for question in acl_set.questions()
        if authorize(whole, settings, *(fields := msgspec.structs.astuple(question)))
        == authorize(expressible, settings, *fields)
    ]
