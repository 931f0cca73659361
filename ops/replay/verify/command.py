"""The arguments of ``authorizerd verify``, and its run, in one process or on Spark.

Exit codes: 0 every judged decision agrees, 3 one differs or too little was judged, 2 invalid
arguments, 1 a fault.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.releases import Release
from authorizerd.acl.text.printable import escape_json
from authorizerd.cli.program.flag_values import parse_duration, parse_ratio
from authorizerd.image.errors import ChangeError
from authorizerd.replay.errors import AclSourceError
from authorizerd.replay.ingest.options import (
    add_engine_argument,
    add_reading_arguments,
    make_ingest_plan,
)
from authorizerd.replay.ingest.report import DAMAGED, Ingested, why_not_accepted
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.errors import NeedsSparkError, TrafficError
from authorizerd.replay.local.tallies import Part, Summand
from authorizerd.replay.local.traffic import count_logs, sum_lines
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE
from authorizerd.replay.options import parse_path, read_client_settings, refuse
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.submit.options import (
    SparkOptions,
    add_spark_arguments,
    read_spark_options,
    refusal,
    why_spark,
)
from authorizerd.replay.text import encode_json
from authorizerd.replay.topics import SCHEME
from authorizerd.replay.verify.causes import find_differences
from authorizerd.replay.verify.history import History
from authorizerd.replay.verify.judging import Judge
from authorizerd.replay.verify.report import Verified, make_report, print_page
from authorizerd.replay.verify.settings import DifferentSetting
from authorizerd.replay.verify.sums import Sums, sum_cases
from authorizerd.replay.verify.topics import TopicInput, open_topics
from authorizerd.replay.verify.whole_topic import add_topic

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
    parser.add_argument(
        "--window",
        type=parse_duration,
        default=WINDOW_S,
        metavar="TIME",
        help="a decision agrees if it is that of any state of the ACLs that was in force within "
        f"this time before or after it, such as 5s or 1m; default {WINDOW_S}s",
    )
    parser.add_argument(
        "--max-not-judged",
        type=parse_ratio,
        default=NOT_JUDGED_MAX,
        metavar="R",
        help="maximum share of decisions that cannot be judged; default %(default)s",
    )
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
        ingested, sums, left_out = _judge_here(logs, judge, topics)
    except NeedsSparkError as error:
        if parsed.engine == "local":
            raise TrafficError(f"{error.reason}: use --engine spark") from error
        if _STDIN in logs.inputs:
            raise TrafficError(f"{error.reason}: Spark reads files, not standard input") from error
        _say(f"engine: spark ({error.reason})")
        ingested, sums, left_out = _judge_on_spark(parsed, logs, judge, options)
    except ChangeError as error:
        raise AclSourceError(history.source, str(error)) from error
    if not ingested.accepted:
        raise TrafficError(why_not_accepted(ingested, logs.bad_ratio_max))
    for text in (*left_out, *(f"{path}: {DAMAGED}" for path in ingested.damaged)):
        _say(text)
    verified = make_report(judge, sums, ingested, parsed.max_not_judged, settings)
    if parsed.json:
        sys.stdout.write(escape_json(encode_json(verified)))
    else:
        print_page(verified)
    return _exit_code_of(verified)


def _choose_spark(parsed: argparse.Namespace) -> tuple[SparkOptions, str | None]:
    """Return the options of Spark, and why they or ``--engine`` choose it."""
    options = read_spark_options(parsed)
    refused = refusal(options)
    if options.only_print or options.deploy_mode == "cluster":
        refused = "--print and --deploy-mode cluster: expected neither: verify prints the result"
    if refused is not None:
        refuse(parsed, refused)
    return options, why_spark(parsed, options)


def _judge_here(
    logs: IngestPlan, judge: Judge, topics: Sequence[TopicInput]
) -> tuple[Ingested, Sums, tuple[str, ...]]:
    """Return the figures of the lines, the sums, and which logs were not read."""
    with collector_off():
        tallies, read = count_logs(logs, find_breaks=judge.find_breaks)
        with open_topics(topics) as clients:
            for client in clients:
                add_topic(client, tallies)
        counted = [
            (summand, part)
            for summand, part in tallies
            if isinstance(summand, Summand) and isinstance(part, Part)
        ]
        tuples = len({summand[:6] for summand, _ in counted})
        ingested = sum_lines(tallies, logs, tuples, read.damaged)
        if not ingested.accepted:
            return ingested, Sums(), ()
        cases = judge.judge(counted)
        return ingested, sum_cases(judge, cases, find_differences(judge, cases)), read.left_out


def _judge_on_spark(
    parsed: argparse.Namespace, logs: IngestPlan, judge: Judge, options: SparkOptions
) -> tuple[Ingested, Sums, tuple[str, ...]]:
    from authorizerd.replay.verify.submission import judge_on_spark

    if logs.topics:
        config = parsed.command_config
        settings = read_client_settings(None if config is None else Path(config)) | _COMMITTED
        topics = tuple(replace(each, settings=settings) for each in logs.topics)
        logs = replace(logs, topics=topics)
    found, left_out = judge_on_spark(logs, judge, options)
    ingested = sum_lines(found.list_tallies(), logs, found.tuples, found.damaged)
    return ingested, found.sums, left_out


def check_engine(parsed: argparse.Namespace) -> None:
    """Reject the options of Spark for a command that does not count logs once."""
    if _choose_spark(parsed)[1] is not None:
        refuse(parsed, "--engine spark: expected neither --follow nor --probe")


def _say(text: str) -> None:
    print(f"authorizerd verify: {text}", file=sys.stderr, flush=True)


def _exit_code_of(verified: Verified) -> int:
    is_different = verified.differences or verified.settings
    return EXIT_DENIED if is_different or verified.lacks_evidence else EXIT_DONE
