"""``authorizerd acls compare-releases``: find ACLs with a different meaning in another release.

Exit codes: 0 no answer changes, 1 a fault, 2 invalid arguments, 10 an answer changes, not all
questions were asked, or the ACLs contradict the recorded requests.

**Invariant:** nothing is changed. Every question shown gets a different answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from authorizerd.acl.explanation import words
from authorizerd.acl.hosts import is_certain
from authorizerd.acl.releases import RULES, Release
from authorizerd.acl.snapshot import with_rules
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.cli import flags
from authorizerd.cli.acl_source import AclSource, SourceRequest, add_source_arguments, open_source
from authorizerd.cli.change.report import describe_entry
from authorizerd.cli.change.traffic import (
    TrafficRequest,
    add_traffic_logs,
    compare_traffic,
    describe_traffic,
)
from authorizerd.cli.output import print_document, print_lines
from authorizerd.management.plan.traffic import TrafficEvidence
from authorizerd.management.release_changes import AclEffect, Meaning, find_effects
from authorizerd.protocol.decisions.explanations import make_question

EXIT_CHANGES: Final = 10
ACLS_SHOWN_MAX: Final = 50
ACLS_LISTED_MAX: Final = 1_000
"""The maximum number of ACLs in the lines, and in the document."""


class CompareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``acls compare-releases``."""

    before: str
    after: str
    json: bool
    source: SourceRequest
    recorded: TrafficRequest


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_compare)
    for flag, name, default in (
        ("--from", "before", Release.KAFKA_4_3),
        ("--to", "after", Release.KAFKA_4_4),
    ):
        parser.add_argument(
            flag,
            dest=name,
            choices=[str(release) for release in Release],
            default=str(default),
            help=f"the release of Kafka that judges {name}; 4.3 stands for 4.0 to 4.3 "
            "(default: %(default)s)",
        )
    flags.add_json_argument(parser)
    add_traffic_logs(
        parser.add_argument_group("recorded requests"),
        "audit logs, or directories of them: show the recorded requests whose answer changes",
    )
    add_source_arguments(parser)


def _compare(given: argparse.Namespace) -> int:
    request = flags.read_request(
        CompareRequest,
        given,
        source=flags.read_request(SourceRequest, given),
        recorded=flags.read_request(TrafficRequest, given),
    )
    return compare_releases(request)


def compare_releases(request: CompareRequest) -> int:
    before, after = Release(request.before), Release(request.after)
    if before is after:
        request.source.refuse(f"--to: expected a release other than that of --from, found {after}")
    source = open_source(request.source)
    # An ACL with a different meaning still counts for its resource, so
    # allow.everyone.if.no.acl.found never applies.
    settings = source.settings.least
    effects = find_effects(source.snapshot, settings, RULES[before], RULES[after])
    traffic = None
    if request.recorded.traffic:
        judged = msgspec.structs.replace(
            source, snapshot=with_rules(source.snapshot, RULES[before])
        )
        traffic, _ = compare_traffic(
            request.recorded, judged, with_rules(source.snapshot, RULES[after])
        )
    if request.json:
        print_document(_make_document(source, before, after, effects, traffic))
    else:
        print_lines(_describe(source, before, after, effects, traffic))
    changes = any(effect.flip_count or not effect.is_complete for effect in effects)
    if traffic is not None:
        changes = changes or bool(traffic.newly_denied.events or traffic.newly_allowed.events)
        changes = changes or traffic.contradiction is not None
    return EXIT_CHANGES if changes else 0


def _make_document(
    source: AclSource,
    before: Release,
    after: Release,
    effects: Sequence[AclEffect],
    traffic: TrafficEvidence | None,
) -> dict[str, object]:
    return {
        "from": before,
        "to": after,
        "acls": [*map(_make_changed, effects[:ACLS_LISTED_MAX])],
        "acls_left_out": max(len(effects) - ACLS_LISTED_MAX, 0),
        "traffic": traffic,
        "source": source.document,
    }


def _make_changed(effect: AclEffect) -> dict[str, object]:
    """Return an ACL whose host has a slash, and the first questions whose answer changes."""
    return {
        "acl": name_acl(effect.acl),
        "meaning": effect.meaning,
        "allowed_after": effect.allows,
        "questions": [*map(make_question, effect.flips)],
        "questions_left_out": effect.flip_count - len(effect.flips),
        "complete": effect.is_complete,
    }


def _describe(
    source: AclSource,
    before: Release,
    after: Release,
    effects: Sequence[AclEffect],
    traffic: TrafficEvidence | None,
) -> Iterator[str]:
    changing = [each for each in effects if each.meaning is not Meaning.NEVER_MATCHES]
    flipping = sum(1 for each in changing if each.flip_count)
    yield (
        f"from Kafka {before} to {after}: {words.count_of(len(changing), 'ACL')} with another"
        f" meaning, {flipping} of them with another answer"
    )
    for effect in effects[:ACLS_SHOWN_MAX]:
        yield from _describe_effect(effect)
    if len(effects) > ACLS_SHOWN_MAX:
        more = words.count_of(len(effects) - ACLS_SHOWN_MAX, "more ACL")
        yield f"and {more} with a slash in the host"
    if traffic is not None:
        yield from describe_traffic(traffic)
    yield from source.describe()


def _describe_effect(effect: AclEffect) -> Iterator[str]:
    acl = effect.acl
    text = f"{describe_entry(acl)} on {words.name_type(acl.resource_type)} "
    text += words.name_pattern(acl.pattern_type, acl.resource_name)
    if effect.meaning is Meaning.NEVER_MATCHES:
        yield f"{effect.meaning}, in both releases: {text}"
        return
    yield f"{effect.meaning}: {text}"
    change = "denied -> allowed" if effect.allows else "allowed -> denied"
    for flip in effect.flips:
        resource = words.name_resource(flip.resource_type, flip.resource_name)
        operation = words.name_operation(flip.operation)
        yield f"  {change}: {flip.principal} {operation} {resource} from {flip.host}"
    more = effect.flip_count - len(effect.flips)
    if more:
        yield f"  {change}: {words.count_of(more, 'more question')}"
    if not is_certain(acl.host):
        yield "  only a broker knows whether it has the network interface that the range names"
    elif not effect.is_complete:
        yield "  not all questions about it were asked: there are too many"
    elif not effect.flip_count:
        yield "  no answer changes, because other ACLs decide"
