"""The files that the local engine reads, and its agreement with Spark about them."""

from __future__ import annotations

import argparse
import bz2
import gzip
import hashlib
import lzma
import os
import random
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pyarrow
import pytest

from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.acl.model import Acl
from authorizerd.cli.main import main as authorizerd
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.plan.document import decode_plan
from authorizerd.replay.acls.reading import read_acl_source
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError
from authorizerd.replay.ingest.report import decode_ingested
from authorizerd.replay.local import files as files_module
from authorizerd.replay.local.files import LogReader, find_copies, find_logs
from authorizerd.replay.local.runs import find_inputs, ingest
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.local.traffic import LogEngine, read_traffic
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from authorizerd.replay.whatif import evaluation
from authorizerd.replay.whatif.options import add_arguments, make_plan
from tests.acl.audit.recorded.hostile_lines import BEGINNINGS, MESSAGE, PIECES
from tests.ops.replay.acl_sets import acl_set_of, topic_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".3": bytes, ".GZ": gzip.compress, ".bz2": bz2.compress,
    ".xz": partial(lzma.compress, preset=0),
    ".zst": lambda data: bytes(pyarrow.compress(data, codec="zstd", asbytes=True)),
}  # fmt: skip
LINES = [b"line %d" % number for number in range(200_000)]


def read(path: Path) -> tuple[list[bytes], list[Reason], str]:
    reader = LogReader(path)
    lines: list[bytes] = []
    faults: list[Reason] = []
    try:
        for some in reader.lines():
            lines += some
    except DamagedArchiveError:
        faults.append(Reason.BROKEN_ARCHIVE)
    assert reader.file.path == str(path)
    return lines, faults, f"{reader.file.bytes} {reader.file.sha256}"


def digest(data: bytes) -> str:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_every_kind_of_file_has_the_same_lines(suffix: str, ending: bytes, tmp_path: Path) -> None:
    packed = PACK[suffix](b"\n".join(LINES) + ending)
    path = tmp_path / f"audit.log{suffix}"
    path.write_bytes(packed)
    assert read(path) == (LINES, [], digest(packed))


def test_bytes_after_an_archive_count_for_its_digest(tmp_path: Path) -> None:
    packed = lzma.compress(b"a\n") + b"more" * 1_000_000
    path = tmp_path / "a.xz"
    path.write_bytes(packed)
    assert read(path) == ([b"a"], [Reason.BROKEN_ARCHIVE], digest(packed))


def test_damaged_archive_keeps_earlier_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"\n".join(LINES))[:-9])
    lines, faults, _ = read(path)
    assert lines == LINES[: len(lines)]
    assert faults == [Reason.BROKEN_ARCHIVE]


def test_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\nb\n",))
    writer.start()
    assert read(path) == ([b"a", b"b"], [], digest(b"a\nb\n"))
    writer.join()


def test_zstandard_without_pyarrow_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "a.zst"
    path.write_bytes(b"any")
    with pytest.raises(TrafficError, match=r"a\.zst: unpacking .zst needs pyarrow: install"):
        read(path)


def test_directory_yields_what_an_ingest_reads(tmp_path: Path) -> None:
    for name in ("b.log", "a/2.log", "a/1.log.gz", "_x", ".y", "z._COPYING_", "_a/1.log", "c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    found = find_logs([str(tmp_path), str(tmp_path / "c")])
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        *("a/1.log.gz", "a/2.log", "b.log", "c")
    ]


@pytest.mark.parametrize(("name", "message"), [
    ("missing.log", "missing.log: No such file or directory"),
    ("empty", "empty: no files found (names that begin with _ or . are skipped)"),
    ("logs.tar.gz", "logs.tar.gz: this archive format is not supported: unpack the file first"),
    ("events", "events/1.parquet: expected an audit log, found Parquet: use Spark"),
    ("device", "device: expected a file or a pipe"),
])  # fmt: skip
def test_unusable_path_is_named(name: str, message: str, tmp_path: Path) -> None:
    for folder in ("empty", "events"):
        (tmp_path / folder).mkdir()
    (tmp_path / "logs.tar.gz").touch()
    (tmp_path / "events" / "1.parquet").touch()
    (tmp_path / "device").symlink_to("/dev/null")
    with pytest.raises(TrafficError) as raised:
        find_logs([str(tmp_path / name)])
    assert f"{tmp_path}/{message}" in str(raised.value)


def test_too_many_files_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "FILES_MAX", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(TrafficError, match=r"more than 2 files: use Spark: run authorizerd replay"):
        find_logs([str(tmp_path)])


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    reader = LogReader(path)
    path.unlink()
    with pytest.raises(TrafficError, match=r"a\.log: No such file"):
        list(reader.lines())


@pytest.mark.parametrize("text", ["link/..", "link/../b.log", "link/../../logs/b.log", "logs"])
def test_logs_are_those_that_an_ingest_finds(tmp_path: Path, text: str) -> None:
    """A path with ``..`` behind a link continues above the link's target."""
    (tmp_path / "logs/old").mkdir(parents=True)
    (tmp_path / "logs/b.log").touch()
    (tmp_path / "b.log").touch()
    (tmp_path / "link").symlink_to("logs/old")
    found = [f"file:{path}" for path in find_logs((f"{tmp_path}/{text}",))]
    assert found == [file.uri for file in find_inputs((f"{tmp_path}/{text}",))]
    assert found == [f"file:{tmp_path}/logs/b.log"]


COPIED = [
    f"[2026-11-21 16:26:{second:02d},123] INFO Principal = User:a is Denied {'x' * 9}"
    for second in range(6)
]
HEADER = "a header of every log"


def text_of(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


WHOLE = text_of(*COPIED)
CASES = {
    "a packed copy": ({"a.log": WHOLE, "a.log.gz": gzip.compress(WHOLE)}, {"a.log.gz": "a.log"}),
    "a copy with other blank lines": ({"a": WHOLE, "b": WHOLE.replace(b"\n", b"\r\n\n")},
        {"b": "a"}),
    "a log before it grew": ({"a": text_of(*COPIED[:4]), "b": WHOLE}, {"a": "b"}),
    "a log after it grew": ({"a": WHOLE, "b": text_of(*COPIED[:4])}, {"b": "a"}),
    "a log whose last line was being written": ({"a": WHOLE, "b": WHOLE[:-9]}, {"b": "a"}),
    "the same before the other": ({"a": WHOLE[:-9], "b": WHOLE}, {"a": "b"}),
    "three stages of a log": ({"a": text_of(*COPIED[:4]), "b": text_of(*COPIED[:2]), "c": WHOLE},
        {"b": "a", "a": "c"}),
    "two logs that begin alike": ({"a": text_of(*COPIED[:4], COPIED[5]), "b": WHOLE,
         "c": text_of(*COPIED[:3])}, {"c": "a"}),
    "a log that lacks a line": ({"a": WHOLE, "b": text_of(COPIED[0], *COPIED[2:])}, {}),
    "a shorter line in the middle": ({"a": WHOLE,
         "b": text_of(COPIED[0], COPIED[1][:-1], *COPIED[2:])}, {}),
    "the middle of a log": ({"a": WHOLE, "b": text_of(*COPIED[2:4])}, {}),
    "only equal headers": ({"a": text_of(HEADER, COPIED[0]), "b": text_of(HEADER, COPIED[1]),
         "c": text_of(HEADER)}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("logs", "expected"), CASES.values(), ids=CASES)
def test_copies_are_logs_with_whose_lines_another_begins(
    logs: Mapping[str, bytes], expected: Mapping[str, str], tmp_path: Path
) -> None:
    for name, content in logs.items():
        (tmp_path / name).write_bytes(content)
    found = find_copies([tmp_path / name for name in logs])
    assert {path.name: other.name for path, other in found.items()} == expected


def test_pipes_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    assert find_copies([tmp_path / "a"]) == {}


SEED = 2200
ADMIN = ("User:admin",)
LAYOUTS = (
    "Principal = {} is {} operation = {} from host = {} on resource = Topic:LITERAL:{} for request "
    "= Fetch with resourceRefCount = 1 based on rule {} (kafka.authorizer.logger)",
    "Principal = {} is {} Operation = {} from host = {} on resource = Topic:{}",
    "Principal = {} is {} Operation = {} from host = {} on resource = Group:PREFIXED:{}",
)


def write_logs(folder: Path) -> None:
    """Write logs with lines of every kind, some of which repeat at other times."""
    drawn = random.Random(SEED)
    names = ("t", "u", "orders-1", "*a", "ü", *PIECES)

    def line() -> bytes:
        if drawn.random() < 0.2:
            return drawn.choice(BEGINNINGS) + MESSAGE % drawn.choice((b"a", b"\xff", b"\x01"))
        text = drawn.choice(LAYOUTS).format(
            drawn.choice(("User:a", "User:b", "User:*", *drawn.sample(PIECES, 1))),
            drawn.choice(("Allowed", "Denied")),
            drawn.choice(("READ", "Describe", "IdempotentWrite", "ANY")),
            drawn.choice(("10.0.0.1", "10.0.0.2", "unknown")),
            drawn.choice(names),
            drawn.choice(("SuperUser", "DefaultDeny", "A", "B")),
        )
        second = f"[2026-11-21 16:26:{drawn.randrange(60):02d},{drawn.randrange(1000):03d}] "
        return f"{second}{drawn.choice(('INFO ', 'DEBUG '))}{text}".encode().replace(b"\n", b" ")

    lines = [line() for _ in range(4000)]
    lines += [b"", b"  ", b"{}", b'{"log":1}', b"\xff", b"no line of an audit log"]
    drawn.shuffle(lines)
    (folder / "plain.log").write_bytes(b"\xef\xbb\xbf{}\n" + b"\n".join(lines[:2000]))
    # A log is kept, and packed before it grew.
    (folder / "plain.log.gz").write_bytes(gzip.compress(b"{}\n" + b"\n".join(lines[:1500])))
    (folder / "below").mkdir()
    (folder / "below" / "a.log.gz").write_bytes(gzip.compress(b"\n".join(lines[2000:3000])))
    (folder / "below" / "b.log.gz").write_bytes(gzip.compress(b"\n".join(lines[3000:]))[:-12])
    (folder / "_hidden").write_bytes(lines[0])


def tuples_in(events: Path) -> set[tuple[object, ...]]:
    """Return the tuples that an ingest wrote, with times in milliseconds."""
    keys = "principal, host, operation, resource_type, resource_name, pattern_type"
    figures = ", ".join(
        f"{answer}_events, epoch_ms({answer}_first_at), epoch_ms({answer}_last_at), {answer}_rule"
        for answer in ("allowed", "denied")
    )
    found = duckdb.sql(f"SELECT {keys}, {figures} FROM '{events}/tuples/**/*.parquet'")
    assert found is not None
    return set(found.fetchall())


def figures_of(ingested: Any) -> dict[str, Any]:  # noqa: ANN401
    figures = msgspec.structs.asdict(ingested)
    return {**figures, "inputs": None, "damaged": len(ingested.damaged)}  # not paths and URIs


def test_hostile_logs_are_read_and_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.ingest.job import run

    logs, events = tmp_path / "logs", tmp_path / "events"
    logs.mkdir()
    write_logs(logs)
    logs_plan = IngestPlan(inputs=(str(logs),), out=str(events), bad_ratio_max=1.0)
    assert run(spark, logs_plan) == 0
    traffic = read_traffic(logs_plan)
    ingested = decode_ingested((events / "ingest.json").read_text())
    assert figures_of(traffic.ingested) == figures_of(ingested)
    assert set(map(tuple, traffic.tuples)) == tuples_in(events)
    assert ingested.lines > 3900
    assert len(ingested.reasons) >= 8
    assert ingested.reasons["broken_archive"] == 1
    deny = Acl(2, "*", 3, "User:*", "10.0.0.2", 2, 2)
    plan = WhatIfPlan(
        events=str(events),
        out=str(tmp_path / "whatif"),
        candidate=acl_set_of([topic_read("t"), topic_read("*", principal="User:b"), deny]),
        baseline=acl_set_of([topic_read("", prefixed=True), topic_read("t", principal="User:b")]),
    )
    evaluation.run(plan, TableEngine(plan.events, plan.out))
    evaluation.run(plan, LogEngine(logs_plan, str(tmp_path / "here")))
    written, here = (tmp_path / name / "whatif.json" for name in ("whatif", "here"))
    assert here.read_bytes() == written.read_bytes()


def test_report_of_a_plan_is_evidence_for_it(real_log_dir: Path, tmp_path: Path) -> None:
    """The way for large logs gives the evidence that the local engine gives for small ones.

    The report is that of a Spark job, byte for byte: see ``test_engines_agree``.
    """
    log = real_log_dir / "kafka-authorizer.log.xz"
    listing, desired = real_log_dir / "acls-list.txt", tmp_path / "desired.txt"
    present = read_acl_source(str(listing))
    kept = [dated.acl for dated in present.acls if dated.acl.principal != "User:growth-svc-31"]
    desired.write_text(format_acls(kept))
    made, events = tmp_path / "plan.json", tmp_path / "events"
    make = f"acls plan {desired} --acls {listing} --super-users User:admin"
    make += f" --allow-everyone-if-no-acl-found=false --out {made}"
    assert authorizerd(make.split()) == 10
    assert ingest(IngestPlan(inputs=(str(log),), out=str(events))) == 0
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = f"--events {events} --acls {listing} --plan {made}"
    parsed = parser.parse_args(words.split(), argparse.Namespace(out=str(tmp_path / "out")))
    parsed.overwrite, parsed.refuse = False, parser.error
    plan = make_plan(parsed, is_local=True)
    assert isinstance(plan, WhatIfPlan)
    assert evaluation.run(plan, TableEngine(plan.events, plan.out)) == 3
    found = []
    for evidence in (f"--traffic {log}", f"--traffic-report {tmp_path}/out/whatif.json"):
        assert authorizerd(f"{make} {evidence}".split()) == 3
        (check,) = decode_plan(made.read_bytes()).checks
        assert check.evidence is not None
        found.append(check.evidence)
    here, there = found
    assert here.newly_denied.tuples == 270
    assert (here.newly_denied, here.newly_allowed) == (there.newly_denied, there.newly_allowed)
    assert (here.engine, there.engine) == ("local", "spark")
    same = ("events", "allowed_events", "tuples", "first_at", "last_at", "not_evaluated")
    assert [getattr(here, name) for name in same] == [getattr(there, name) for name in same]
