"""Sessions of Spark Connect, without its server; ``make conformance`` runs whole jobs on one."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from authorizerd.replay import application
from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.errors import JobError
from authorizerd.replay.jobs import JOBS
from authorizerd.replay.plans import FollowPlan, IngestPlan, WhatIfPlan
from authorizerd.replay.spark.description import describe
from authorizerd.replay.spark.progress import printing_progress
from authorizerd.replay.spark.session import is_local, is_remote, send_code
from authorizerd.replay.topics import Topic
from tests.support.programs import output_of


@dataclass(frozen=True)
class Stage:
    stage_id: int
    num_completed_tasks: int
    num_tasks: int = 4
    done: bool = False


class RemoteSession:
    """Stands in for a session of Spark Connect; PySpark's is recognized by its module."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self) -> None:
        self.handlers: list[Callable[..., None]] = []
        self.tags: list[str] = []

    def addTag(self, tag: str) -> None:
        self.tags.append(tag)

    def removeTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def registerProgressHandler(self, handler: Callable[..., None]) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Callable[..., None]) -> None:
        self.handlers.remove(handler)


def new_session() -> Any:  # noqa: ANN401 - mypy must take it for a session
    return RemoteSession()


def report(session: RemoteSession, stages: list[Stage] | None) -> None:
    for handler in session.handlers:
        handler(stages, inflight_tasks=1, operation_id="id", done=False)


def test_remote_progress_names_the_running_stages(capsys: pytest.CaptureFixture[str]) -> None:
    session = new_session()
    assert is_remote(session)
    assert not is_local(session)
    with printing_progress(session, seconds_between=0):
        report(session, [Stage(1, 4, done=True), Stage(2, 3), Stage(3, 0)])
        report(session, [Stage(1, 4, done=True)])
        report(session, None)
    assert session.handlers == []
    said = "authorizerd replay: running: stage 2: 3 of 4 tasks; stage 3: 0 of 4 tasks\n"
    assert capsys.readouterr().out == said


def test_remote_progress_is_printed_once_per_interval(capsys: pytest.CaptureFixture[str]) -> None:
    session = new_session()
    with printing_progress(session, seconds_between=3600):
        report(session, [Stage(1, 0)])
    assert capsys.readouterr().out == ""


def test_remote_operations_get_tags_without_commas() -> None:
    session = new_session()
    with describe(session, "usage"), describe(session, "sum by kind, name"):
        assert session.tags == ["usage", "sum by kind name"]
    assert session.tags == []


def test_watch_is_rejected() -> None:
    acls = AclSet(source="none", acls=(), digest=digest_of(()))
    whatif = WhatIfPlan(events="o/follow", out="o", candidate=acls)
    topic = Topic(servers="h:1", name="audit")
    ingest = IngestPlan(inputs=(), out="o/follow", topics=(topic,))
    plan = FollowPlan(out="o", ingest=ingest, whatif=whatif, interval_s=30)
    with pytest.raises(JobError, match="--follow: expected a driver of its own"):
        application.run_plan(new_session(), plan)


def test_code_outside_of_an_archive_is_not_sent() -> None:
    with pytest.raises(JobError, match="expected the zip of authorizerd replay package"):
        send_code(new_session())


def test_tasks_import_a_job_without_a_session() -> None:
    names = (*JOBS, "verify", "whatif.follow")
    output_of(
        sys.executable, "-c", "; ".join(f"import authorizerd.replay.{name}.job" for name in names)
    )
