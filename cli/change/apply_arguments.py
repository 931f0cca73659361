"""The flags of ``authorizerd acls apply``. The modules that run it are imported once it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from authorizerd.cli.profile import HELP, use_profile
from authorizerd.cli.questions.answers import add_json_argument


def add_apply_arguments(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run, refuse=parser.error)
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a file of acls plan --out")
    parser.add_argument(
        "--bootstrap-server",
        metavar="SERVERS",
        help=f"the brokers or the daemon whose ACLs are changed: host:port,host:port. {HELP}",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="a properties file with Kafka's client keys: log-in, TLS, timeouts",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="compare the ACLs with the plan, and print the requests instead of sending them",
    )
    add_batches_argument(parser)
    parser.add_argument(
        "--accept-breaking",
        action="store_true",
        help="apply a plan although its tests or its traffic break",
    )
    add_json_argument(parser)


def add_batches_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--batches``."""
    parser.add_argument(
        "--batches",
        action="store_true",
        help="make more changes than one request of Kafka can make",
    )


def _run(arguments: argparse.Namespace) -> int:
    use_profile(arguments)
    if arguments.bootstrap_server is None:
        arguments.refuse("expected --bootstrap-server HOST:PORT, or a profile")
    from authorizerd.cli.change.applying import apply_plan

    return apply_plan(arguments)
