"""The run of ``authorizerd verify --follow``, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.releases import Release
from authorizerd.cli.program.ending import set_at_signals
from authorizerd.cli.program.flag_values import parse_address
from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.protocol.verification import Findings
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.ingest.options import make_ingest_plan
from authorizerd.replay.local.tallies import Tallies
from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.topics import SCHEME
from authorizerd.replay.verify.follow.files import FollowedFiles, find_paths
from authorizerd.replay.verify.follow.history import HistoryFollower, ask_contact
from authorizerd.replay.verify.follow.options import LISTEN
from authorizerd.replay.verify.follow.shadow import Shadow
from authorizerd.replay.verify.follow.state import State, hold_state, read_state
from authorizerd.replay.verify.follow.topics import FollowedTopic
from authorizerd.replay.verify.follow.waiting import WAITING_BYTES_MAX
from authorizerd.replay.verify.topics import TopicInput, open_topics

PAUSE_S: Final = 1.0

Serve: TypeAlias = Callable[[Callable[[], Findings], HttpEndpoint], tuple[int, Callable[[], None]]]
"""Serves metrics of what a function returns; see ``cli.verify_metrics``."""


def follow(
    parsed: argparse.Namespace,
    path: Path,
    known: KnownSettings,
    releases: tuple[Release, ...],
    topics: Sequence[TopicInput],
    serve: Serve,
) -> int:
    """Compare decisions as they are logged, until a signal; return the exit code.

    Args:
        topics: those that ``--logs`` names.

    Raises:
        AclSourceError: the history cannot be read at the start, or is another one than before.
        TrafficError: a log cannot be read, or the state or the address cannot be used.
    """
    log_dir = str(path.absolute())
    new = State(history=log_dir, window_ms=parsed.window * 1000)
    listen: HttpEndpoint = parsed.listen or parse_address(LISTEN)
    daemon: HttpEndpoint | None = parsed.daemon_metrics
    layout = make_ingest_plan(parsed, (), "").layout
    find_time = Tallies.of(layout).find_time
    inputs = [text for text in parsed.logs if not text.startswith(SCHEME)]
    with hold_state(parsed.state), set_at_signals() as stopped, open_topics(topics) as clients:
        state = read_state(parsed.state, new)
        if inputs and not state.files and next(find_paths(inputs), None) is None:
            raise TrafficError(f"--logs: {' '.join(inputs)}: no files found")
        bytes_max = WAITING_BYTES_MAX // max(len(clients), 1)
        followed = [FollowedTopic(each, state.partitions, find_time, bytes_max) for each in clients]
        shadow = Shadow(
            parsed.state,
            state,
            HistoryFollower(Path(log_dir), log_dir),
            known,
            releases,
            (FollowedFiles(inputs, state.files, find_time), *followed),
            layout,
            ask=None if daemon is None else partial(ask_contact, daemon),
        )
        try:
            port, stop = serve(shadow.describe, listen)
        except OSError as error:
            raise TrafficError(f"--listen: {listen.host}:{listen.port}: {error}") from error
        print(f"authorizerd verify: metrics at http://{listen.host}:{port}/metrics", flush=True)
        try:
            while not stopped.is_set():
                if not shadow.step():
                    stopped.wait(PAUSE_S)
            shadow.close()
        finally:
            stop()
    return EXIT_DONE
