"""Audit logs as evidence: which files and lines are read, and what is said about the rest."""

import gzip
import lzma
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from authorizerd.acl.audit.authors import Authors, Certainty, Evidence, Span, Window
from authorizerd.acl.audit.recorded import requests
from authorizerd.acl.past import PastChange
from authorizerd.daemon.audit import evidence
from authorizerd.daemon.audit.evidence import LOCAL_ZONE, AuditLogs, Limits, read_evidence
from authorizerd.metadata.past.history import read_history
from authorizerd.metadata.past.past_log import read_past
from tests.support.acls import acl
from tests.support.audit import written_line

NO_LIMITS = Limits()
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def line(
    second: int, principal: str = "User:a", request: str = "CreateAcls", verdict: str = "Allowed"
) -> str:
    operation = "CLUSTER_ACTION" if request == "BrokerHeartbeat" else "ALTER"
    return (
        f"[2026-11-21 12:{second // 60:02d}:{second % 60:02d},000] DEBUG Principal = {principal} is"
        f" {verdict} operation = {operation} from host = 10.0.0.1 on resource ="
        f" Cluster:LITERAL:kafka-cluster for request = {request} with resourceRefCount = 1 based on"
        " rule SuperUser (kafka.authorizer.logger)\n"
    )


def read(*patterns: Path, limits: Limits = NO_LIMITS) -> Evidence:
    return read_evidence([AuditLogs(str(pattern)) for pattern in patterns], limits)


def seconds(found: Evidence) -> list[int]:
    return [(request.at_ms - NOON_MS) // 1000 for request in found.requests]


def test_rotated_and_compressed_files_of_a_log_are_read(tmp_path: Path) -> None:
    log = tmp_path / "kafka-authorizer.log"
    log.write_text(line(40))
    Path(f"{log}.1").write_text(line(30))
    Path(f"{log}.2026-11-21-11.gz").write_bytes(gzip.compress(line(20).encode()))
    Path(f"{log}-20261121.xz").write_bytes(lzma.compress(line(10).encode()))
    Path(f"{log}.old").write_text(line(50))
    (tmp_path / "server.log").write_text(line(55))
    assert seconds(read(log)) == [10, 20, 30, 40]
    assert seconds(read(tmp_path / "kafka-*.log", log)) == [10, 20, 30, 40]
    assert seconds(read(tmp_path)) == [10, 20, 30, 40, 50, 55]


def test_heartbeats_of_a_log_continue_in_its_next_file(tmp_path: Path) -> None:
    """Those of another log do not."""
    beats = [line(second, request="BrokerHeartbeat") for second in range(0, 60, 2)]
    log = tmp_path / "a.log"
    Path(f"{log}.1").write_text("".join(beats[:15]))
    log.write_text("".join(beats[15:]))
    assert read(log).complete == (Span(NOON_MS, NOON_MS + 58_000),)
    log.rename(tmp_path / "b.log")
    assert len(read(tmp_path).complete) == 2


def test_unreadable_request_is_a_doubt_at_its_time(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    others = [line(25, request="Metadata")] * 20
    unreadable = line(20, "User:x is Allowed operation = READ")
    log.write_text("".join([line(10), unreadable, *others, line(30)]))
    found = read(log)
    assert seconds(found) == [10, 30]
    assert found.doubts == (Span(NOON_MS + 10_000, NOON_MS + 25_000),)


def test_line_within_a_broken_one_is_a_doubt(tmp_path: Path) -> None:
    """A principal's name has a line break, and after it the beginning of a line."""
    log = tmp_path / "a.log"
    log.write_text(line(10) + line(20, f"User:eve\n{line(20).split('User:a')[0]}User:a") + line(30))
    found = read(log)
    assert seconds(found) == [10]
    (doubt,) = found.doubts
    assert doubt.begin_ms == NOON_MS + 10_000


OURS = f"{line(1, request='Metadata')[:-1]} [knownBy=SCRAM caller=User:a address=10.0.0.1]\n"


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("", "", True),
        (OURS, OURS, True),
        (line(1, request="Metadata"), "", False),
        (OURS * 2 + line(1, request="Metadata"), "", False),
        ("", line(3), False),
    ],
)
def test_offset_in_a_brokers_log_is_not_the_daemons(
    before: str, after: str, counts: bool, tmp_path: Path
) -> None:
    """A client can write whole lines into a broker's log: by a topic's name with line breaks."""
    log = tmp_path / "a.log"
    written = written_line(1, "User:b", at_ms=NOON_MS + 2_000)
    log.write_text(before + written + after)
    found = [each for each in read(log).requests if each.offset is not None]
    assert [each.principal for each in found] == ["User:b"] * counts


def test_only_the_newest_part_is_read_within_the_limits(tmp_path: Path) -> None:
    size = len(line(1))
    log = tmp_path / "a.log"
    log.write_text("".join(map(line, range(20, 30))))
    older = Path(f"{log}.1")
    older.write_text("".join(map(line, range(10, 20))))
    os.utime(older, (0, 0))
    found = read(log, limits=Limits(bytes_max=4 * size - 20))
    assert (seconds(found), found.doubts) == ([27, 28, 29], ())
    assert found.left_out is not None
    assert "only a part" in found.left_out
    assert Authors(found).find(change(0)).reason == found.left_out
    whole = read(log, limits=Limits(since_ms=NOON_MS))
    assert (seconds(whole), whole.left_out) == ([*range(20, 30)], None)
    assert read(log, limits=Limits(seconds_max=0)).left_out is not None
    older.unlink()
    assert read(log, limits=Limits(bytes_max=9 * size)).left_out is not None
    assert read(log, limits=Limits(bytes_max=10 * size)).left_out is None


def change(second: int) -> PastChange:
    return PastChange(1, NOON_MS + second * 1000, True, bytes(16), acl("User:a", topic="t"))


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(line(10).encode())[:-9])
    found = read(tmp_path / "*.gz", tmp_path / "missing.log")
    assert found.left_out is not None
    assert found.left_out.startswith("an audit log cannot be read: ")
    names: list[str] = []
    logs = [AuditLogs(str(tmp_path / name)) for name in ("*.gz", "missing.log")]
    read_evidence(logs, NO_LIMITS, on_error=lambda name, _: names.append(name))
    assert sorted(names) == [str(tmp_path / "a.log.gz"), str(tmp_path / "missing.log")]


def test_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.log")
    assert read(tmp_path).requests == ()


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    "hour",
    ["2026-01-01T12", "2026-07-01T12", "2026-10-25T02", "2026-10-25T03", "2026-03-29T02"],
)
def test_local_zone_is_that_of_the_machine(hour: str) -> None:
    """An hour that occurs twice is the earlier one, as in the other readers of logs."""
    local = datetime.fromisoformat(f"{hour}:30:00")
    expected = local.replace(tzinfo=ZoneInfo("Europe/Berlin"))
    assert local.replace(tzinfo=LOCAL_ZONE).utcoffset() == expected.utcoffset()


def test_lines_that_only_show_the_time_are_not_all_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, parsed = tmp_path / "a.log", 0
    lines = [line(1, request="Metadata")] * 6400
    log.write_text("".join([*lines, line(2)]))
    original = requests.read_facts

    def read_facts(text: bytes, zone: ZoneInfo) -> object:
        nonlocal parsed
        parsed += 1
        return original(text, zone)

    monkeypatch.setattr(evidence, "read_facts", read_facts)
    assert seconds(read(log)) == [2]
    assert parsed < 400


def test_authors_of_the_real_log(real_log_dir: Path) -> None:
    """User:admin, a super user, has made all changes; the log begins only seconds before."""
    found = read(*real_log_dir.glob("kafka-authorizer.log*"))
    assert len(found.requests) == 49
    history = read_past(real_log_dir, lambda log: read_history(log, lambda _: True))
    assert len(history.changes) == 2141
    authors = Authors(found)
    named = {authors.find(each) for each in history.changes}
    assert {(each.certainty, each.principals) for each in named} == {
        (Certainty.ONLY, ("User:admin",))
    }
    short = Authors(found, Window(latency_ms=200, skew_ms=50, gap_ms=500))
    assert {short.find(each).principals for each in history.changes} <= {("User:admin",)}
