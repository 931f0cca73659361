"""The owner of the metadata in ZooKeeper: its brokers, or the KRaft controller of a migration.

**Invariant:** when in doubt, a KRaft controller owns it. Anything written to ZooKeeper would then
be lost, or differ from the controller's data.

Source: KIP-866; Kafka 3.9 ZkData (MigrationZNode, ControllerZNode), KafkaZkClient.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.text.decoding_errors import DECODING_ERRORS, describe_decoding_error

MIGRATION: Final = "/migration"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
"""Every new controller, of either kind, changes this znode."""


class _Migration(msgspec.Struct, frozen=True):
    """The state of a migration."""

    kraft_controller_id: int


class _Controller(msgspec.Struct, frozen=True):
    """The registration of the active controller; brokers before 3.4 do not write KRaft's epoch."""

    broker_id: int = msgspec.field(name="brokerid")
    kraft_epoch: int = msgspec.field(name="kraftControllerEpoch", default=-1)


_MIGRATION: Final = msgspec.json.Decoder(_Migration)
_CONTROLLER: Final = msgspec.json.Decoder(_Controller)


def find_kraft_owner(migration: bytes | None, controller: bytes | None) -> str | None:
    """Return a sentence about the KRaft controller that owns the metadata; None if none does."""
    if controller is not None:
        try:
            registered = _CONTROLLER.decode(controller)
        except DECODING_ERRORS as error:
            return _unknown_owner(CONTROLLER, error)
        if registered.kraft_epoch >= 0:
            return (
                f"{CONTROLLER} names the KRaft controller {registered.broker_id} with epoch "
                f"{registered.kraft_epoch}"
            )
    if migration is not None:
        try:
            state = _MIGRATION.decode(migration)
        except DECODING_ERRORS as error:
            return _unknown_owner(MIGRATION, error)
        if state.kraft_controller_id >= 0:
            return f"{MIGRATION} names the KRaft controller {state.kraft_controller_id}"
    return None


def _unknown_owner(path: str, error: Exception) -> str:
    fault = describe_decoding_error(error)
    return f"{path} cannot be read, so that its owner is unknown: {fault}"
