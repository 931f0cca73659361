"""The flags of ``authorizerd sync``. The modules that run it are imported once it runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from authorizerd.cli import flags
from authorizerd.cli.program.flag_values import (
    parse_count,
    parse_duration,
    parse_loopback,
    parse_ratio,
)

if TYPE_CHECKING:
    from authorizerd.cli.sync.rounds import SyncRequest

INTERVAL_S: Final = 10
LISTEN: Final = "127.0.0.1:9184"
REMOVALS_MAX: Final = 5
SHRINK_MAX: Final = 0.5


def add_sync_arguments(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.change.arguments import add_plan_inputs
    from authorizerd.cli.source_settings import add_setting_arguments

    advice = {"--log-dir": "sync changes ACLs through servers: use --bootstrap-server"}
    parser.set_defaults(run=_sync, refuse=parser.error, advice=advice)
    text = f"the time from one round to the next, such as 5s or 1m; default {INTERVAL_S}s"
    flags.add_text(parser, "--interval", "TIME", text, type=parse_duration, default=INTERVAL_S)
    flags.add_switch(parser, "--once", "run one round, and end with an exit code")
    flags.add_switch(parser, "--dry-run", "say what would be changed, and change nothing")
    text = f"a loopback address that serves /metrics and /health; default {LISTEN}"
    default = parse_loopback(LISTEN)
    flags.add_text(parser, "--listen", "HOST:PORT", text, type=parse_loopback, default=default)
    add_plan_inputs(parser)
    limits = parser.add_argument_group("which plans a person must accept")
    text = "so many ACLs a plan may always delete (default: %(default)s)"
    flags.add_text(limits, "--max-removals", "N", text, type=parse_count, default=REMOVALS_MAX)
    text = (
        "above --max-removals, the share that a plan may delete of what one group, all groups or "
        "the files have made (default: %(default)s)"
    )
    flags.add_text(limits, "--max-shrink", "R", text, type=parse_ratio, default=SHRINK_MAX)
    text = "where a plan that is not applied is written, for acls apply"
    flags.add_file(limits, "--blocked-plan", text, "PLAN")
    text = "with --once: accept the removals with this digest, which the log names"
    flags.add_text(limits, "--accept-removals", "DIGEST", text)
    group = parser.add_argument_group("where the ACLs are")
    flags.add_broker_arguments(group, "Changing ACLs needs ALTER and DESCRIBE on the cluster")
    add_setting_arguments(group)


def _sync(given: argparse.Namespace) -> int:
    from authorizerd.cli.sync.command import sync

    return sync(read_sync_request(given))


def read_sync_request(given: argparse.Namespace) -> SyncRequest:
    """Return the request. Flags that do not fit together end the command with exit code 2."""
    from authorizerd.cli.change.arguments import read_plan_request
    from authorizerd.cli.profile import use_profile
    from authorizerd.cli.sync.rounds import SyncRequest

    if given.accept_removals is not None and not given.once:
        given.refuse("--accept-removals: expected --once as well")
    plan = read_plan_request(given, out=None, json=False, batches=True)
    source, _ = use_profile(plan.source)
    if source.bootstrap_server is None:
        given.refuse("expected --bootstrap-server HOST:PORT, or a profile")
    return flags.read_request(
        SyncRequest,
        given,
        plan=plan,
        servers=source.bootstrap_server,
        command_config=source.command_config,
        removals_max=given.max_removals,
        shrink_max=given.max_shrink,
    )
