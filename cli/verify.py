"""``authorizerd verify``: compare brokers' decisions with those of this code.

The comparison of records belongs to replay, whose errors become those of a command here. The ACLs
and the settings are found as by ``explain``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace

from authorizerd.acl.releases import Release
from authorizerd.cli.acl_source import (
    LogPlace,
    Place,
    SourceRequest,
    add_source_arguments,
    open_place,
)
from authorizerd.cli.configuration_file import read_configuration, read_configuration_text
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import add_file, read_request
from authorizerd.cli.probe.arguments import add_probe_arguments, check_unused, read_probe
from authorizerd.config.properties import parse_properties
from authorizerd.config.providers import PROVIDERS, resolve_placeholders
from authorizerd.replay.errors import ReplayError
from authorizerd.replay.text import format_time
from authorizerd.replay.topics import SCHEME, parse_topic
from authorizerd.replay.verify.command import add_arguments, check_engine, run
from authorizerd.replay.verify.follow.options import add_follow_arguments, check_follow
from authorizerd.replay.verify.history import list_states
from authorizerd.replay.verify.log_states import read_history
from authorizerd.replay.verify.settings import DifferentSetting, compare_settings, is_compared
from authorizerd.replay.verify.topics import TopicInput


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    add_source_arguments(parser, is_of_moment=False)
    text = (
        "a broker's server.properties: settings that differ from those of --config are a difference"
    )
    add_file(parser, "--broker-config", text)
    add_probe_arguments(parser)
    add_follow_arguments(parser)
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    if parsed.probe or parsed.follow:
        check_engine(parsed)
    if parsed.probe:
        from authorizerd.cli.probe.command import run_probe  # it loads the client of a cluster

        return run_probe(read_probe(parsed))
    check_unused(parsed)
    listed_ms = time.time_ns() // 1_000_000
    topics = _read_topics(parsed)
    request = read_request(SourceRequest, parsed)
    if topics and request.bootstrap_server is None:
        request = replace(request, command_config=None)  # it is for the topics
    place = open_place(request)
    settings = _compare_settings(parsed)
    try:
        check_follow(parsed, place.path if isinstance(place, LogPlace) else None)
        if isinstance(place, LogPlace):
            releases = tuple(Release) if place.release is None else (place.release,)
            if parsed.follow:
                from authorizerd.cli.verify_metrics import serve_metrics
                from authorizerd.replay.verify.follow.command import follow

                return follow(parsed, place.path, place.settings, releases, topics, serve_metrics)
            history = read_history(place.path)
            return run(parsed, history, place.settings, releases, settings, topics)
        if place.unread:
            raise CommandError(f"{place.name}: expected a file that is read as a whole")
        is_live = place.place is Place.BROKERS
        history = list_states(
            f"{place.name}, listed at {format_time(listed_ms)}" if is_live else place.name,
            place.snapshot.acls.values(),
            listed_ms if is_live else None,
        )
        known_releases = place.snapshot.rules.releases
        return run(parsed, history, place.settings, known_releases, settings, topics)
    except ReplayError as error:
        raise CommandError(str(error)) from error


def _read_topics(parsed: argparse.Namespace) -> list[TopicInput]:
    """Return the topics among the logs, with the settings of ``--command-config``."""
    addresses = [text for text in parsed.logs if text.startswith(SCHEME)]
    if not addresses:
        return []
    from authorizerd.cli.broker_acls import read_client_settings  # as in ``acl_source``

    try:
        topics = [parse_topic(text, {}) for text in addresses]
    except ValueError as error:
        parsed.refuse(f"--logs: {error}")
    config = parsed.command_config
    return [
        TopicInput(each, read_client_settings(each.servers, config, place=each.uri))
        for each in topics
    ]


def _compare_settings(parsed: argparse.Namespace) -> list[DifferentSetting] | msgspec.UnsetType:
    path: Path | None = parsed.broker_config
    if path is None:
        return msgspec.UNSET
    if parsed.config is None:
        parsed.refuse("--broker-config: expected --config as well")
    text = read_configuration_text(path, "--broker-config: ")
    broker = resolve_placeholders(
        {
            name: entry
            for name, entry in parse_properties(text, source=str(path)).items()
            if is_compared(name) or name.startswith(PROVIDERS)
        }
    )
    own = read_configuration(parsed.config, parsed.override)
    return list(
        compare_settings({name: each.value for name, each in broker.items()}, own.file_values)
    )
