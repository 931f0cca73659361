"""The options of ``replay load``."""

from __future__ import annotations

import argparse
import uuid
from pathlib import Path

from authorizerd.replay.load.checks import MODES, check_plan
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.target import new_context
from authorizerd.replay.load.plan.questions import SURFACES
from authorizerd.replay.options import resolve_input, resolve_output
from authorizerd.replay.plans import LoadPlan


def add_load_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay load``."""
    parser.add_argument("--events", required=True, metavar="DIR", help="results of ingest")
    parser.add_argument(
        "--target",
        required=True,
        metavar="HOST:PORT",
        help="address of the daemon; tls://HOST:PORT or https://HOST:PORT with TLS; or unix:PATH",
    )
    parser.add_argument(
        "--surface",
        choices=SURFACES,
        default="stream",
        help="decision port to use; default %(default)s",
    )
    parser.add_argument("--token-file", metavar="FILE", help="file whose first line is the token")
    _add_tls(parser)
    _add_schedule(parser)
    _add_connections(parser)
    parser.add_argument(
        "--max-send-lag",
        type=float,
        default=10.0,
        metavar="MS",
        help="the run is not valid if the p99 send lag exceeds this; default %(default)s",
    )
    parser.add_argument(
        "--fail-on",
        default="",
        metavar="THRESHOLDS",
        help="exit with 3 if a threshold fails; for example"
        " p99<5ms,mismatch=0,errors=0,dropped=0,rate>=1000",
    )
    parser.add_argument("--dry-run", action="store_true", help="plan the load, but send nothing")


def _add_tls(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "TLS",
        "Files in PEM. On a cluster, the driver and each executor read them: name absolute paths"
        " that exist on every machine, or paths in an archive that --archives sends. Keys in an"
        " archive pass through Spark's file server.",
    )
    group.add_argument(
        "--cafile", metavar="FILE", help="certificates of the CAs to trust; default: the system's"
    )
    group.add_argument("--cert", metavar="FILE", help="the certificate chain to present")
    group.add_argument(
        "--key", metavar="FILE", help="its key, without a password; default: in the file of --cert"
    )


def _add_schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="open",
        help="open: follow a schedule; closed: as fast as answers arrive",
    )
    paces = parser.add_mutually_exclusive_group()
    paces.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="2 sends twice as fast as recorded; default %(default)s",
    )
    paces.add_argument(
        "--rate", type=float, metavar="N", help="questions per second, evenly spaced"
    )
    parser.add_argument(
        "--profile",
        default="constant",
        metavar="PROFILE",
        help="how the rate changes: constant, ramp:FROM:TO:SECONDS, or"
        " step:RATE:SECONDS,RATE:SECONDS,…; default %(default)s",
    )
    parser.add_argument(
        "--max-gap",
        type=float,
        metavar="SECONDS",
        help="maximum pause; longer recorded pauses are shortened",
    )
    parser.add_argument(
        "--loop",
        type=int,
        default=1,
        metavar="N",
        help="how many times to send the events; 0 repeats until --duration; default %(default)s",
    )
    parser.add_argument(
        "--warmup",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="time at the start to exclude from latencies and rates",
    )
    parser.add_argument(
        "--duration", type=float, metavar="SECONDS", help="length of the load after the warm-up"
    )


def _add_connections(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lanes",
        type=int,
        default=1,
        metavar="N",
        help="connections, one task each; default %(default)s",
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=64,
        metavar="N",
        help="questions per frame; default %(default)s",
    )
    parser.add_argument(
        "--depth", type=int, default=8, metavar="N", help="frames in flight; default %(default)s"
    )
    parser.add_argument(
        "--start-margin",
        type=float,
        default=3.0,
        metavar="SECONDS",
        help="time from the last lane being ready to the start; default %(default)s",
    )


def make_load_plan(parsed: argparse.Namespace, *, is_local: bool) -> LoadPlan:
    """Return the plan that the options describe.

    An unusable value ends the command, as argparse's own errors do.

    Raises:
        PathError: the events or a file do not exist, or the output directory is not empty.
    """
    if parsed.token_file is not None and parsed.only_print:
        parsed.refuse("--token-file: not with --print, which would leave the token in a file")
    try:
        plan = _plan(parsed, is_local=is_local)
        check_plan(plan)
        if is_local:
            new_context(plan)
    except LoadError as error:
        parsed.refuse(str(error))
        raise
    return plan


def _plan(parsed: argparse.Namespace, *, is_local: bool) -> LoadPlan:
    return LoadPlan(
        events=resolve_input(parsed.events, is_local=is_local),
        out=resolve_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite),
        target=parsed.target,
        run_id=uuid.uuid4().hex,
        surface=parsed.surface,
        mode=parsed.mode,
        speed=parsed.speed,
        rate=parsed.rate,
        profile=parsed.profile,
        lanes=parsed.lanes,
        batch=parsed.batch,
        depth=parsed.depth,
        warm_up_s=parsed.warmup,
        duration_s=parsed.duration,
        max_gap_s=parsed.max_gap,
        loop=parsed.loop,
        start_margin_s=parsed.start_margin,
        max_send_lag_ms=parsed.max_send_lag,
        fail_on=parsed.fail_on,
        token=_token(parsed.token_file),
        cafile=_file(parsed.cafile, is_local=is_local),
        cert=_file(parsed.cert, is_local=is_local),
        key=_file(parsed.key, is_local=is_local),
        dry_run=parsed.dry_run,
        overwrite=parsed.overwrite,
    )


def _file(path: str | None, *, is_local: bool) -> str | None:
    return None if path is None else resolve_input(path, is_local=is_local)


def _token(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"--token-file: {path}: {error}") from error
    if not lines:
        raise LoadError(f"--token-file: {path}: empty")
    return lines[0].strip()
