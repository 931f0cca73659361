"""The arguments of ``authorizerd verify``, and its run, in one process or on Spark.

Exit codes: 0 every judged decision agrees, 3 one differs, 5 none differs, but there is too little
evidence, 2 invalid arguments, 1 a fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.releases import Release
from authorizerd.acl.text.printable import escape_json, escape_unprintable
from authorizerd.cli.program.flag_values import parse_count, parse_duration, parse_ratio
from authorizerd.cli.program.flags import add_value
from authorizerd.image.errors import ChangeError
from authorizerd.replay.errors import AclSourceError, NeedsSparkError, TrafficError
from authorizerd.replay.ingest.options import (
    add_engine_argument,
    add_reading_arguments,
    make_ingest_plan,
)
from authorizerd.replay.ingest.report import DAMAGED, Ingested, why_not_accepted
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.tallies import Part, Summand
from authorizerd.replay.local.traffic import count_logs, leave_out_copies, sum_lines
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE, EXIT_NO_EVIDENCE
from authorizerd.replay.options import parse_path, read_client_settings, refuse
from authorizerd.replay.plans import IngestPlan, VerifyPlan
from authorizerd.replay.submit.options import (
    SparkOptions,
    add_spark_arguments,
    read_spark_options,
    refusal,
    why_spark,
)
from authorizerd.replay.text import encode_json
from authorizerd.replay.topics import BEFORE_OFFSET, SCHEME
from authorizerd.replay.verify.causes import name_log
from authorizerd.replay.verify.history import History
from authorizerd.replay.verify.judging import Judge
from authorizerd.replay.verify.parts import RESULT, JudgedParts
from authorizerd.replay.verify.report import Needed, Verified, make_report, page_lines
from authorizerd.replay.verify.settings import DifferentSetting
from authorizerd.replay.verify.sums import Sums, judge_counted
from authorizerd.replay.verify.topics import TopicInput, add_topic, open_topics

WINDOW_S: Final = 5
NOT_JUDGED_MAX: Final = 0.05

_COMMITTED: Final = {"isolation.level": "read_committed"}
"""As without Spark: the writer of an aborted transaction repeats its lines."""
_STANDARD_INPUT: Final = "-"
_STDIN: Final = "/dev/stdin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``authorizerd verify``, without those that name the ACLs."""
    parser.set_defaults(overwrite=False)
    parser.add_argument(
        "--logs",
        type=parse_path,
        action="extend",
        nargs="+",
        metavar="FILE",
        help="brokers' audit logs: files, directories or globs, or kafka://HOST:PORT/TOPIC; - is "
        "standard input",
    )
    text = (
        "a decision agrees if it is that of any state of the ACLs that was in force within "
        f"this time before or after it, such as 5s or 1m; default {WINDOW_S}s"
    )
    add_value(parser, "--window", parse_duration, "TIME", text, default=WINDOW_S)
    text = "maximum share of decisions that cannot be judged; default %(default)s"
    add_value(parser, "--max-not-judged", parse_ratio, "R", text, default=NOT_JUDGED_MAX)
    text = "end with exit code 5 if fewer allowed decisions were judged; default %(default)s"
    add_value(parser, "--min-allowed", parse_count, "N", text, default=1)
    text = "end with exit code 5 if the newest decision of a log is older than this, such as 2d"
    add_value(parser, "--newest-within", parse_duration, "TIME", text)
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    add_engine_argument(parser)
    add_reading_arguments(parser)
    add_spark_arguments(parser)


def run(
    parsed: argparse.Namespace,
    history: History,
    known: KnownSettings,
    releases: tuple[Release, ...],
    settings: Sequence[DifferentSetting] | msgspec.UnsetType,
    topics: Sequence[TopicInput] = (),
) -> int:
    """Compare the recorded decisions, print the result, and return the exit code.

    Args:
        topics: those that ``--logs`` names.
        settings: those that differ at the broker, unset if they were not compared.

    Raises:
        AclSourceError: the changes of a log contradict each other.
        PathError: the settings of ``--command-config`` for a topic cannot be read.
        SubmissionError: Spark is needed, and cannot be started.
        TrafficError: a log cannot be read, is too much for one process, or has too many lines
            without an event.
    """
    options, needed = _choose_spark(parsed)
    inputs = tuple(
        _STDIN if text == _STANDARD_INPUT else text
        for text in parsed.logs
        if not text.startswith(SCHEME)
    )
    logs = make_ingest_plan(parsed, inputs, "", tuple(each.topic for each in topics))
    judge = Judge(history, known, releases, parsed.window * 1000)
    try:
        if needed is not None:
            raise NeedsSparkError(needed)
        counted = _judge_here(logs, judge, topics)
    except NeedsSparkError as error:
        if parsed.engine == "local":
            raise TrafficError(f"{error.reason}: use --engine spark") from error
        if _STDIN in logs.inputs:
            raise TrafficError(f"{error.reason}: Spark reads files, not standard input") from error
        _say(f"engine: spark ({error.reason})")
        counted = _judge_on_spark(parsed, logs, judge, options)
    except ChangeError as error:
        raise AclSourceError(history.source, str(error)) from error
    ingested = counted.ingested
    if not ingested.accepted:
        raise TrafficError(why_not_accepted(ingested, logs.bad_ratio_max))
    for text in (*counted.left_out, *(f"{path}: {DAMAGED}" for path in ingested.damaged)):
        _say(text)
    within_s = parsed.newest_within
    needed_evidence = Needed(
        not_judged_max=parsed.max_not_judged,
        allowed_min=parsed.min_allowed,
        newest_after_ms=None if within_s is None else round((time.time() - within_s) * 1000),
    )
    verified = make_report(
        judge, counted.sums, ingested, counted.newest_ms, needed_evidence, settings
    )
    return _show(verified, as_json=parsed.json)


def _show(verified: Verified, *, as_json: bool) -> int:
    """Print the result, and return the exit code."""
    if as_json:
        sys.stdout.write(escape_json(encode_json(verified)))
    else:
        for line in page_lines(verified):
            print(escape_unprintable(line))
    if verified.differences or verified.settings:
        return EXIT_DENIED
    return EXIT_NO_EVIDENCE if verified.lacks else EXIT_DONE


def _choose_spark(parsed: argparse.Namespace) -> tuple[SparkOptions, str | None]:
    """Return the options of Spark, and why they or ``--engine`` choose it."""
    options = read_spark_options(parsed)
    refused = refusal(options)
    if options.only_print or options.deploy_mode == "cluster":
        refused = "--print and --deploy-mode cluster: expected neither: verify prints the result"
    if refused is not None:
        refuse(parsed, refused)
    return options, why_spark(parsed, options)


class _Counted(NamedTuple):
    """The figures of the lines, the sums, the newest event of each log, and what was not read."""

    ingested: Ingested
    sums: Sums
    newest_ms: Mapping[str, int | None]
    left_out: Sequence[str] = ()


def _judge_here(logs: IngestPlan, judge: Judge, topics: Sequence[TopicInput]) -> _Counted:
    with collector_off():
        tallies, read = count_logs(logs, find_breaks=judge.find_breaks)
        with open_topics(topics) as clients:
            for client in clients:
                add_topic(client, tallies)
        parts = [(key, part) for key, part in tallies if isinstance(part, Part)]
        tuples = len({key[:6] for key, _ in parts if isinstance(key, Summand)})
        ingested = sum_lines(tallies, logs, tuples, read.damaged)
        sums = judge_counted(judge, parts) if ingested.accepted else Sums()
    files = [each.path for each in read.files]
    newest_ms = _find_newest(logs, files, ((part.file, part.last_ms) for _, part in parts))
    return _Counted(ingested, sums, newest_ms, read.left_out)


def _judge_on_spark(
    parsed: argparse.Namespace, logs: IngestPlan, judge: Judge, options: SparkOptions
) -> _Counted:
    """Let a job count and judge. If it fails, it names its fault, and this command ends."""
    from authorizerd.replay.submit.submitter import submit

    left_out: tuple[str, ...] = ()
    files: list[str] = []
    sent = logs
    if logs.topics:
        config = parsed.command_config
        settings = read_client_settings(None if config is None else Path(config)) | _COMMITTED
        topics = tuple(replace(each, settings=settings) for each in logs.topics)
        sent = replace(logs, topics=topics)
    if options.is_local:
        with suppress(NeedsSparkError):  # only Spark finds them
            paths, left_out = leave_out_copies(logs.inputs)
            files = [str(path.absolute()) for path in paths]
            sent = replace(sent, inputs=tuple(files))
    with tempfile.TemporaryDirectory(prefix="authorizerd-verify-") as folder:
        out = Path(folder, "out")
        code = submit(VerifyPlan(logs=sent, out=str(out), judge=judge.packed), options)
        if code != EXIT_DONE:
            sys.exit(code)
        found = msgspec.json.decode((out / RESULT).read_bytes(), type=JudgedParts)
    ingested = sum_lines(found.list_tallies(), logs, found.sums.requests, found.damaged)
    events = ((each.file, each.last_ms) for each in found.figures if each.reason is None)
    newest_ms = _find_newest(logs, [*files, *(each.file for each in found.figures)], events)
    return _Counted(ingested, found.sums, newest_ms, left_out)


def _find_newest(
    logs: IngestPlan, files: Iterable[str], events: Iterable[tuple[str, int | None]]
) -> dict[str, int | None]:
    """Return the time of the newest event in each broker's log and in each topic, or None."""
    newest_ms: dict[str, int | None] = {topic.name: None for topic in logs.topics}
    for file, last_ms in chain(((each, None) for each in files), events):
        is_record = file.endswith(BEFORE_OFFSET)
        log = file.rpartition("/")[0] if is_record else name_log(file)
        times = [each for each in (newest_ms.get(log), last_ms) if each is not None]
        newest_ms[log] = max(times, default=None)
    return newest_ms


def check_engine(parsed: argparse.Namespace) -> None:
    """Reject the options of Spark for a command that does not count logs once."""
    if _choose_spark(parsed)[1] is not None:
        refuse(parsed, "--engine spark: expected neither --follow nor --probe")


def _say(text: str) -> None:
    print(f"authorizerd verify: {text}", file=sys.stderr, flush=True)
