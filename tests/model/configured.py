"""The configuration of a story's process."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.follow.settings import SourceKind
from tests.model.machine import LOG_DIR
from tests.model.story import EARLY, LATE, USERS, Life

PASSWORD: Final = "secret"

_LOG_IN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_JAAS: Final = " ".join(f'user_{each.removeprefix("User:")}="{PASSWORD}"' for each in USERS)

_QUORUM: Final = (
    "controller.listener.names=CONTROLLER\n"
    "controller.quorum.bootstrap.servers=controller1:9093,controller2:9093\n"
)
_BROKERS: Final = (
    "authorizerd.source=brokers\n"
    "authorizerd.source.bootstrap.servers=broker11:9092,broker12:9092\n"
    "authorizerd.source.request.timeout.ms=2000\n"
    "authorizerd.source.poll.ms={}\n"
)
_FORWARD: Final = (
    "authorizerd.writes=forward\nauthorizerd.writes.forward.principals={}\n"
    "authorizerd.writes.forward.privileged=local-users,super-users\n"
)


def configure(
    life: Life, super_users: tuple[str, ...], everyone: bool, source: SourceKind
) -> Configuration:
    """Return the configuration of a life.

    Args:
        everyone: True to allow everyone what no ACL is about.
    """
    text = (
        f"node.id=1\nlog.dirs=/log\nsuper.users={';'.join(super_users)}\n"
        f"allow.everyone.if.no.acl.found={str(everyone).lower()}\n"
        f"authorizerd.update.timeout.ms={life.timeout_ms}\n"
        f"listeners={EARLY}://127.0.0.1:1,{LATE}://127.0.0.1:2\n"
        f"listener.security.protocol.map={EARLY}:SASL_PLAINTEXT,{LATE}:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        f"sasl.enabled.mechanisms=PLAIN\nearly.start.listeners={EARLY}\n"
        f"listener.name.early.plain.sasl.jaas.config={_LOG_IN} {_JAAS};\n"
        f"listener.name.late.plain.sasl.jaas.config={_LOG_IN} {_JAAS};\n"
        "authorizerd.decision.stream=tcp://127.0.0.1:3\n"
        "metadata.log.max.snapshot.interval.ms=0\n"
        "metadata.max.retention.ms=-1\n"  # otherwise it would depend on the clock
        f"queued.max.requests={life.requests_max}\n"
        "connection.failed.authentication.delay.ms=0\n"
        f"authorizerd.workers={life.workers}\n"
        f"authorizerd.worker.timeout.ms={life.worker_timeout_ms}\n"
    )
    if source is not SourceKind.LOG:
        text += (
            f"authorizerd.source.stale.max.ms={life.stale_max_ms}\n"
            f"authorizerd.source.serve.copy={str(life.serves_copy).lower()}\n"
        )
        text += _BROKERS.format(life.poll_ms) if source is SourceKind.BROKERS else _QUORUM
        forwarded = ";".join(life.forwards)
        text += _FORWARD.format(forwarded) if forwarded else "authorizerd.writes=as-self\n"
    return replace(
        _parse(text),
        metadata_log_dir=str(LOG_DIR),
        metadata_log_segment_bytes=life.segment_bytes,
        metadata_log_max_record_bytes_between_snapshots=life.checkpoint_bytes,
        metadata_max_retention_bytes=life.retention_bytes,
    )


@cache
def _parse(text: str) -> Configuration:
    return parse(text, source="server.properties")
