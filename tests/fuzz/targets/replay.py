"""Files that the jobs of replay write for each other: commits, plans of jobs, and results."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from authorizerd.acl.text.decoding_errors import DECODING_ERRORS
from authorizerd.replay.acl_set import AclSet, DatedAcl
from authorizerd.replay.ingest.commit import Commit, Run, TableError, decode_commit, encode_commit
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.plans import LoadPlan, UsagePlan
from authorizerd.replay.plans import decode_plan as decode_job
from authorizerd.replay.plans import encode_plan as encode_job
from authorizerd.replay.report.results import DECODERS
from authorizerd.replay.whatif.report import Changed, WhatIf
from tests.fuzz.target import SECRET, in_thread, rejected_with
from tests.support.acls import acl


def _check_replay_file(data: bytes) -> None:
    """Files of replay's jobs are written again as they were read, or refused."""
    with rejected_with(TableError), suppress(*DECODING_ERRORS):
        commit = decode_commit(data)
        assert decode_commit(encode_commit(commit)) == commit
    with suppress(*DECODING_ERRORS):
        job = decode_job(data)
        assert decode_job(encode_job(job)) == job
    for decode in DECODERS.values():
        with suppress(*DECODING_ERRORS):
            written = msgspec.json.encode(decode(data.decode()))
            assert msgspec.json.encode(decode(written.decode())) == written


def _replay_files() -> Iterator[bytes]:
    ingested = Ingested(
        accepted=True,
        lines=3,
        blank_lines=1,
        events=1,
        set_aside=1,
        reasons={"no_time": 1},
        allowed_events=1,
        denied_events=0,
        tuples=1,
        first_at="2026-01-01T00:00:00Z",
        last_at=None,
        time_zone="UTC",
        inputs=("a.log",),
        levels={"INFO": 1},
    )
    run = Run(id="a", days=("2026-01-01",), ingested=ingested)
    offsets = {"topic": {0: 9}}
    yield encode_commit(
        Commit(number=1, salt=7, runs=(run,), tuples_run="a", offsets=offsets, ingested=ingested)
    )
    yield msgspec.json.encode(ingested)
    acls = AclSet(
        source="a",
        acls=(DatedAcl(acl("User:alice", "READ", topic="orders"), 7),),
        digest="sha256:0",
        offset=7,
    )
    yield encode_job(UsagePlan(events="events", out="out", acls=acls))
    yield encode_job(
        LoadPlan(events="events", out="out", target="a:1", run_id="r", token=f"a.{SECRET}")
    )
    judged = JudgedBy.of(acls)
    yield msgspec.json.encode(
        WhatIf(
            events=0,
            allowed_events=0,
            tuples=0,
            first_at=None,
            last_at=None,
            not_evaluated={},
            candidate=judged,
            baseline=judged,
            newly_denied=Changed(),
            newly_allowed=Changed(events=1),
        )
    )


REPLAY_TARGETS: Final = (
    in_thread("replay-files", _check_replay_file, _replay_files, weight=20),
)  # fmt: skip
