"""A history of ACLs, and a broker that decides by plain scans of it, with faults on request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from authorizerd.acl.decision import DefaultRule, MatchingAcl
from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Operation, Question, ResourceType
from authorizerd.acl.releases import RULES, Release
from authorizerd.cli.main import main
from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.metadata import MetadataRecord, encode_value
from tests.oracles.scan import decide
from tests.support.acls import acl, question
from tests.support.fixture_types import Capture
from tests.support.log_files import METADATA_VERSION, added, removed, write_segment

START_MS = 1_792_000_000_000
SETTINGS = ("--super-users=", "--allow-everyone-if-no-acl-found=false")


class Step(NamedTuple):
    """Changes that become visible at a time, in seconds after ``START_MS``."""

    at_s: float
    changes: Sequence[AclAdded | AclRemoved] = ()


END_S = 400.0
RANGE = acl("User:d", topic="ranged", host="10.0.0.0/8")
MORE = added(9, acl("User:c", topic="v"))
STEPS: Sequence[Step] = (
    Step(0, (added(1, acl(topic="t")), added(2, acl("User:b", topic="u")), added(3, RANGE))),
    Step(100, (added(4, acl(operation="WRITE", topic="t")),)),
    Step(200, (removed(1),)),
    Step(300, (added(5, acl("User:b", "WRITE", topic="u")),)),
)
QUESTIONS = (
    question(topic="t"),
    question(operation="WRITE", topic="t"),
    question("User:b", topic="u"),
    question("User:b", "WRITE", topic="u"),
    question("User:c", topic="v"),
)


def write_history(folder: Path, steps: Iterable[Step], end_s: float | None = None) -> Path:
    """Write a metadata log with a batch for each step, and one without ACLs at the end."""
    batches: list[bytes] = []
    offset = 0
    for at_s, changes in [*steps, *([] if end_s is None else [Step(end_s)])]:
        records: Sequence[MetadataRecord] = changes or [METADATA_VERSION]
        values = [(None, encode_value(record)) for record in records]
        batches.append(encode_batch(offset, 0, START_MS + round(at_s * 1000), values))
        offset += len(records)
    write_segment(folder, 0, *batches)
    return folder


def acls_at(steps: Iterable[Step], at_s: float) -> list[Acl]:
    live: dict[bytes, Acl] = {}
    for step in steps:
        if step.at_s <= at_s:
            for change in step.changes:
                if isinstance(change, AclAdded):
                    live[change.id] = change.acl
                else:
                    del live[change.id]
    return list(live.values())


@dataclass(frozen=True)
class Broker:
    """A broker whose clock is ahead by ``clock_s``."""

    steps: Sequence[Step]
    clock_s: float = 0
    super_users: Sequence[str] = ()
    is_open: bool = False
    release: Release = Release.KAFKA_4_3
    plug_in: str | None = None
    lines: list[str] = field(default_factory=list)

    def answer(self, at_s: float, question: Question, delay_s: float = 0) -> None:
        """Decide a question by the ACLs of ``delay_s`` earlier, and record it."""
        acls = acls_at(self.steps, at_s - delay_s)
        allowed, acl = decide(acls, self.is_open, question, RULES[self.release])
        default = DefaultRule.DEFAULT_ALLOW if allowed else DefaultRule.DEFAULT_DENY
        rule = str(default if acl is None else MatchingAcl(acl))
        if question.principal in self.super_users:
            allowed, rule = True, str(DefaultRule.SUPER_USER)
        if self.plug_in is not None:
            allowed, rule = not allowed, self.plug_in
        self.lines.append(make_line(at_s + self.clock_s, question, rule, allowed=allowed))


def record(broker: Broker, questions: Sequence[Question] = QUESTIONS) -> Broker:
    """Let a broker answer all questions every 7 seconds."""
    for at_s in range(10, int(END_S), 7):
        for each in questions:
            broker.answer(at_s, each)
    return broker


def make_line(at_s: float, question: Question, rule: str | None, *, allowed: bool) -> str:
    """Return an audit line, in the layout before Kafka 3 without a rule."""
    time = datetime.fromtimestamp((START_MS + round(at_s * 1000)) / 1000, UTC)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S,") + f"{time.microsecond // 1000:03}"
    kind = ResourceType(question.resource_type).name.title().replace("_", "")
    operation, answer = Operation(question.operation).name, "Allowed" if allowed else "Denied"
    label, end = " Operation", ""
    if rule is not None:
        label = " operation"
        end = f" for request = Fetch with resourceRefCount = 1 based on rule {rule}"
    return (
        f"[{stamp}] INFO Principal = {question.principal} is {answer}{label} = {operation} "
        f"from host = {question.host} on resource = {kind}:LITERAL:{question.resource_name}{end} "
        "(kafka.authorizer.logger)"
    )


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def run(capsys: Capture, *words: str | Path) -> tuple[int, Any]:
    """Return the exit code of ``authorizerd verify``, and its document."""
    code = main(["verify", "--json", *map(str, words)])
    return code, json.loads(capsys.readouterr().out)


def verify(
    folder: Path,
    capsys: Capture,
    lines: Iterable[str],
    *words: str | Path,
    steps: Iterable[Step] = STEPS,
    end_s: float = END_S,
) -> tuple[int, Any]:
    """Return the result of comparing the lines of ``audit.log`` with a history in the folder."""
    log_dir = write_history(folder, steps, end_s)
    path = write_lines(folder / "audit.log", lines)
    return run(capsys, "--logs", path, "--log-dir", log_dir, *words)


def causes(document: Any) -> dict[str, int]:  # noqa: ANN401 - a JSON document
    return {group["cause"]: group["events"] for group in document["differences"]}
