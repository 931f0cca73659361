"""What disturbs the daemons while clients ask: each one waits until its effect is there.

**Invariant:** the effect that is waited for is the documented one, so a disturbance without effect
fails the soak.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from random import Random
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from authorizerd.acl.model import AclAdded, Question
from authorizerd.protocol.kafka.api import QuorumKey
from tests.fleet.universe import DAEMON
from tests.soak.sites import HOSTS, FollowerSite, OwnLogSite, Site, wait_until
from tests.support.acls import acl, question
from tests.support.certificates import connect_tls
from tests.support.requests import evaluation_of
from tests.support.scripted_quorum import Fault, ScriptedQuorum

Disturbance: TypeAlias = Callable[[], None]
"""Disturb a daemon, and wait for the effect; raise AssertionError if there is none."""

COPY_SECONDS: Final = 150.0
"""How long the daemon may take to write its copy again: it tries every 60 s."""
SEGMENT_SECONDS: Final = 240.0
"""How long changes may take to fill a segment on a busy machine."""
_SUPER_USERS: Final = "super.users"
_SOMETIMES: Final = ";User:sometimes"
_UNCOMMITTED_SECONDS: Final = 0.5
_NEW_CONNECTIONS: Final = 4
"""So many connections are likely to reach both workers."""


def disturbances_of_own(site: OwnLogSite) -> dict[str, Disturbance]:
    """Return what disturbs the daemon with a log of its own, by name."""
    found: dict[str, Disturbance] = {
        "reload settings": partial(toggle_super_user, site),
        "reject settings": partial(reject_settings, site),
        "replace a token": partial(replace_token, site),
        "replace the certificate": partial(replace_certificate, site),
        "rotate the audit log": partial(rotate_audit, site),
        "kill a worker": partial(kill_worker, site),
    }
    if site.disk.is_small and site.audit_disk.is_small:
        found["fill the audit's disk"] = partial(fill_audit_disk, site)
        found["use up the log's file names"] = partial(use_up_names, site)
    return found


def disturbances_of_follower(site: FollowerSite, random: Random) -> dict[str, Disturbance]:
    """Return what disturbs the follower, by name."""
    found: dict[str, Disturbance] = {
        "reload settings": partial(toggle_super_user, site),
        "elect another leader": partial(_do, site, partial(_elect_another, random=random)),
        "restart the leader": partial(restart_leader, site, random),
        "lose uncommitted records": partial(lose_uncommitted, site, random),
        "drop the leader's connections": lambda: _do(
            site, lambda quorum: quorum.drop_connections(quorum.leader.node_id)
        ),
        "spoil an answer": lambda: _do(
            site, lambda quorum: quorum.leader.spoil(QuorumKey.FETCH, Fault.GARBAGE)
        ),
        "take a snapshot": lambda: _do(site, ScriptedQuorum.take_snapshot),
    }
    if site.disk.is_small:
        found["fill the copy's disk"] = partial(fill_copy_disk, site)
    return found


def _ask(site: Site, question: Question, token: str | None = None) -> tuple[int, bool]:
    """Ask on a new connection; return the status and the decision."""
    headers = dict(site.http_headers)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    with closing(site.http()) as connection:
        body = json.dumps(evaluation_of(question))
        connection.request("POST", "/access/v1/evaluation", body, headers)
        response = connection.getresponse()
        answer = response.read()
    return response.status, response.status == 200 and json.loads(answer)["decision"]


def toggle_super_user(site: Site) -> None:
    """Make a user a super user, or take that away; every later answer must show it."""
    super_users = site.settings[_SUPER_USERS]
    is_super = not super_users.endswith(_SOMETIMES)
    site.settings[_SUPER_USERS] = (
        super_users + _SOMETIMES if is_super else super_users.removesuffix(_SOMETIMES)
    )
    site.signal_reload()
    asked = question("User:sometimes", "READ", topic="sometimes")
    for _ in range(_NEW_CONNECTIONS):
        found = _ask(site, asked)
        assert found == (200, is_super), f"expected {is_super} for {asked}, found {found}"


def reject_settings(site: Site) -> None:
    """Reload a file with an error: nothing changes."""
    super_users = site.settings[_SUPER_USERS]
    site.settings[_SUPER_USERS] = "nobody"
    try:
        site.signal_reload("the configuration is not reloaded")
    finally:
        site.settings[_SUPER_USERS] = super_users
    found = _ask(site, question("User:soak", "READ", topic="any"))
    assert found == (200, True), f"the old settings are not in force: {found}"


def replace_token(site: OwnLogSite) -> None:
    """Replace a token: the new one is accepted, the old one is not."""
    old, site.spare_token = site.spare_token, site.replace_token("spare")
    site.signal_reload()
    asked = question("User:spare", "READ", topic="any")  # callers may ask about themselves
    for _ in range(_NEW_CONNECTIONS):
        assert _ask(site, asked, site.spare_token) == (200, False)
        assert not old or _ask(site, asked, old) == (401, False)


def replace_certificate(site: OwnLogSite) -> None:
    """Replace the keystore: every new handshake shows the new certificate."""
    keystore = site.authority.issue("server", *HOSTS)
    site.signal_reload()
    certificate = load_pem_x509_certificate(keystore.read_bytes())
    expected = certificate.public_bytes(Encoding.DER)
    assert site.context is not None
    ports = [site.ready["decision_http"], site.ready["decision_stream"]]
    for port in [*ports, *ports, site.ready["listeners"]["SECURE"]]:
        with closing(connect_tls(port, site.context)) as connection:
            assert connection.getpeercert(binary_form=True) == expected, f"{port}: old certificate"


def rotate_audit(site: OwnLogSite) -> None:
    """Move the audit file away, as logrotate does: the daemon opens a new one."""
    site.audit_file.replace(site.audit_file.with_suffix(".1"))
    new = site.audit_file
    wait_until(lambda: new.exists() and new.stat().st_size > 0, "a new audit file is written to")


def kill_worker(site: OwnLogSite) -> None:
    """Kill the younger worker. The other one lives through the whole soak."""
    *_, victim = site.workers
    site.allow_cuts()
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in site.workers, "the dead worker is noticed")
    wait_until(lambda: site.metric("authorizerd_workers") == 2, "the worker is replaced")
    site.allow_cuts()


def fill_audit_disk(site: OwnLogSite) -> None:
    """Let no audit line be written for a while. Decisions go on."""
    with site.audit_disk.full():
        wait_until(lambda: site.metric("authorizerd_audit_failing") >= 1, "the audit fails")
    wait_until(lambda: site.metric("authorizerd_audit_failing") == 0, "the audit recovers")
    rotate_audit(site)


def use_up_names(site: OwnLogSite) -> None:
    """Let the log begin no segment: changes are refused, and nothing is lost."""
    site.is_full = True
    refusals = site.refusals
    with site.disk.without_names():
        wait_until(
            lambda: site.refusals > refusals, "changes are refused", seconds_max=SEGMENT_SECONDS
        )
    floor = site.judge.floor
    wait_until(lambda: site.judge.floor > floor, "changes are made again")
    site.is_full = False


def fill_copy_disk(site: Site) -> None:
    """Let the daemon not write its copy for a while. Decisions go on."""
    failing = "authorizerd_source_copy_failing"
    with site.disk.full():
        wait_until(lambda: site.metric(failing) == 1, "the copy cannot be written")
    wait_until(
        lambda: site.metric(failing) == 0, "the copy is written again", seconds_max=COPY_SECONDS
    )


def _do(site: FollowerSite, action: Callable[[ScriptedQuorum], object]) -> None:
    """Let the quorum do something, and wait until the daemon has what is committed then."""
    with site.writing:
        site.quorum.do(action)
    _wait_until_applied(site)


def _wait_until_applied(site: FollowerSite) -> None:
    offset = site.judge.promised
    wait_until(
        lambda: site.metric("authorizerd_snapshot_offset") >= offset, f"offset {offset} is applied"
    )


def _elect_another(quorum: ScriptedQuorum, random: Random) -> None:
    leader = quorum.leader.node_id
    quorum.elect(random.choice([each for each in quorum.controllers if each != leader]))


def restart_leader(site: FollowerSite, random: Random) -> None:
    killed = site.quorum.do(lambda quorum: quorum.leader.node_id)

    def kill_and_elect(quorum: ScriptedQuorum) -> None:
        quorum.kill(killed)
        quorum.elect(random.choice([each for each in quorum.controllers if each != killed]))

    _do(site, kill_and_elect)
    site.quorum.start(killed)
    _wait_until_applied(site)


def lose_uncommitted(site: FollowerSite, random: Random) -> None:
    """Let the leader append what would change decisions, and the next leader truncate it."""
    records = [
        AclAdded(site.new_id(), acl("User:*", "ALL", topic=topic)) for topic in DAEMON.topics
    ]
    with site.writing:  # another change would commit it
        site.quorum.do(ScriptedQuorum.append, *records, commits=False)
        time.sleep(_UNCOMMITTED_SECONDS)
        site.quorum.do(partial(_elect_another, random=random))
    _wait_until_applied(site)
