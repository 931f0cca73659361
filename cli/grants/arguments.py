"""The flags of ``acls grant``, and the ACLs and times that they mean.

**Invariant:** an end is in the future, after the begin, and at most ``YEARS_MAX`` years away. An
author and a reason are never empty.
"""

from __future__ import annotations

import argparse
import re
import time
from itertools import product
from typing import Final

import msgspec

from authorizerd.acl.as_of import parse_time
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.model import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.notes import is_note
from authorizerd.acl.surprises import find_surprises
from authorizerd.acl.text.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.validation import find_creation_fault
from authorizerd.cli import flags
from authorizerd.cli import question_words as words
from authorizerd.cli.flags import Refuse
from authorizerd.cli.grants.changes import GrantRequest
from authorizerd.cli.profile import HELP, use_profile

YEARS_MAX: Final = 10
ACLS_MAX: Final = 1_000
"""The maximum number of grants at once, so that one request of Kafka makes all or none."""
_MS_MAX: Final = YEARS_MAX * 366 * 86_400_000
_DURATION: Final = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.A)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)
_DURATIONS: Final = "a duration, such as 90m, 2h, 7d or 1d12h"


def add_grant_arguments(parser: argparse.ArgumentParser) -> None:
    advice = {
        "--log-dir": "a server makes grants: start the daemon of this log, and name it with "
        "--bootstrap-server"
    }
    parser.set_defaults(run=_run, refuse=parser.error, advice=advice)
    what = parser.add_argument_group("what is granted; repeated flags are combined")
    flags.add_list(what, "--principal", "PRINCIPAL", words.PRINCIPAL_HELP, required=True)
    flags.add_list(what, "--operation", "OPERATION", words.OPERATION_HELP, required=True)
    for flag in RESOURCE_FLAGS:
        flags.add_list(what, f"--{flag}", "NAME", f"the {flag.replace('-', ' ')}, or * for all")
    flags.add_switch(what, "--cluster", "the cluster")
    text = "how NAME matches resources (default: LITERAL)"
    what.add_argument(
        "--resource-pattern-type", type=str.upper, choices=("LITERAL", "PREFIXED"),
        default="LITERAL", help=text,
    )  # fmt: skip
    flags.add_list(what, "--host", "HOST", "only from this host (default: any)")
    flags.add_switch(what, "--deny", "deny it for this time, instead of allowing it")
    when = parser.add_argument_group("when; a TIME has its zone, as in 2026-12-01T10:00:00Z")
    ends = when.add_mutually_exclusive_group()
    flags.add_text(ends, "--for", "DURATION", f"{_DURATIONS}, until the end", dest="duration")
    flags.add_text(ends, "--until", "TIME", "the end")
    begins = when.add_mutually_exclusive_group()
    flags.add_text(begins, "--from", "TIME", "a later begin (default: now)", dest="begin")
    flags.add_text(begins, "--in", "DURATION", "the same, from now", dest="delay")
    record = parser.add_argument_group("what is recorded, and shown by acls grants")
    flags.add_text(record, "--reason", "TEXT", "why, such as a ticket; a new grant needs it")
    text = "who grants it (default: the principal that this command logs in as)"
    flags.add_text(record, "--by", "AUTHOR", text)
    changes = parser.add_argument_group(
        "change grants of exactly these ACLs"
    ).add_mutually_exclusive_group()
    for name, text in (
        ("extend", "end later; --for counts from now"),
        ("permanent", "keep the ACL without an end"),
        ("revoke", "end now, or do not begin"),
    ):
        changes.add_argument(
            f"--{name}", dest="action", action="store_const", const=name, default="make", help=text
        )
    flags.add_json_argument(parser)
    servers = parser.add_argument_group("where the ACLs are")
    text = f"the brokers or the daemon: host:port,host:port. {HELP}"
    flags.add_text(servers, "--bootstrap-server", "SERVERS", text)
    text = "a properties file with Kafka's client keys: authentication, TLS, timeouts"
    flags.add_text(servers, "--command-config", "FILE", text)


def _run(given: argparse.Namespace) -> int:
    from authorizerd.cli.grants.command import run_grant

    return run_grant(read_grant_request(given, time.time_ns() // 1_000_000))


def read_grant_request(given: argparse.Namespace, now_ms: int) -> GrantRequest:
    """Return the request. Invalid flags end the command with exit code 2."""
    request, _ = use_profile(flags.read_request(GrantRequest, given))
    refuse = request.refuse
    if request.bootstrap_server is None:
        refuse("expected --bootstrap-server HOST:PORT, or a profile")
    for flag, text in (("--reason", request.reason), ("--by", request.by)):
        if text is not None and not (text.strip() and flags.is_utf8(text)):
            refuse(f"{flag}: expected a text, found {text!r}")
    makes, extends = request.action == "make", request.action == "extend"
    needs = {
        "--for or --until": (given.duration or given.until, makes or extends),
        "--from or --in": (given.begin or given.delay, None if makes else False),
        "--reason": (request.reason, True if makes else None if extends else False),
        "--by": (request.by, None if makes or extends else False),
    }
    for names, (value, is_needed) in needs.items():
        if is_needed is not None and (value is not None) is not is_needed:
            action = "a new grant" if makes else f"--{request.action}"
            refuse(f"{names}: {'expected' if is_needed else 'not possible'} with {action}")
    begin_ms, end_ms = _read_times(given, now_ms, refuse)
    return msgspec.structs.replace(
        request, acls=tuple(_read_acls(given, refuse)), begin_ms=begin_ms, end_ms=end_ms
    )


def _read_times(
    given: argparse.Namespace, now_ms: int, refuse: Refuse
) -> tuple[int | None, int | None]:
    """Return the begin and the end, None where no flag gives one."""
    begin_ms = end_ms = None
    if given.begin is not None:
        begin_ms = _read_time(given.begin, "--from", refuse)
    if given.delay is not None:
        begin_ms = now_ms + _read_duration(given.delay, "--in", refuse)
    if begin_ms is not None and begin_ms <= now_ms:
        refuse("--from: expected a time in the future")
    start_ms = now_ms if begin_ms is None else begin_ms
    if given.until is not None:
        end_ms = _read_time(given.until, "--until", refuse)
    if given.duration is not None:
        end_ms = start_ms + _read_duration(given.duration, "--for", refuse)
    if end_ms is not None and end_ms <= start_ms:
        refuse("--until: expected a time after the begin, and in the future")
    if end_ms is not None and end_ms > now_ms + _MS_MAX:
        refuse(f"the end: expected at most {YEARS_MAX} years from now")
    return begin_ms, end_ms


def _read_time(text: str, flag: str, refuse: Refuse) -> int:
    try:
        return parse_time(text)
    except InvalidAsOfError as error:
        refuse(f"{flag}: {error}")


def _read_duration(text: str, flag: str, refuse: Refuse) -> int:
    """Return a duration in milliseconds."""
    match = _DURATION.fullmatch(text)
    parts = [] if match is None else [int(part or 0) for part in match.groups()]
    duration_ms = sum(part * unit for part, unit in zip(parts, _UNITS_MS, strict=False))
    if not duration_ms:
        refuse(f"{flag}: expected {_DURATIONS}, found {text!r}")
    return duration_ms


def _read_acls(given: argparse.Namespace, refuse: Refuse) -> list[Acl]:
    pattern_type = PatternType[given.resource_pattern_type]
    resources = [
        (resource_type, name, pattern_type)
        for flag, resource_type in RESOURCE_FLAGS.items()
        for name in getattr(given, flag.replace("-", "_"))
    ]
    if given.cluster:
        resources.append((ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    if not resources:
        refuse("expected a resource, such as --topic orders")
    texts = [*(name for _, name, _ in resources), *given.host]
    if not all(map(flags.is_utf8, texts)):
        refuse(f"expected UTF-8 in names and hosts, found {texts}")
    words.warn_of_expanded(texts)
    principals = [words.read_principal(text, "--principal", refuse) for text in given.principal]
    operations = [words.read_operation(text, "--operation", refuse) for text in given.operation]
    permission = PermissionType.DENY if given.deny else PermissionType.ALLOW
    hosts = given.host or [WILDCARD]
    count = len(resources) * len(principals) * len(hosts) * len(operations)
    if count > ACLS_MAX:
        refuse(f"expected at most {ACLS_MAX} grants at once, found {count}: split the request")
    acls = [
        Acl(resource_type, name, pattern, principal, host, operation, permission)
        for (resource_type, name, pattern), principal, host, operation in product(
            resources, principals, hosts, operations
        )
    ]
    for acl in acls:
        fault = "a note cannot be granted" if is_note(acl) else find_creation_fault(acl)
        if fault is not None:
            refuse(f"Kafka would refuse this ACL: {fault}: {acl}")
    words.warn_of(dict.fromkeys(text for acl in acls for text in find_surprises(acl)))
    return list(dict.fromkeys(acls))
