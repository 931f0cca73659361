"""``quorum-state``: the voters of a log.

This daemon writes only a log whose one voter is this node.

**Invariant:** a log with other voters belongs to them. If the daemon began an epoch on a copy of
such a log, and the copy were returned to the voters, the new epoch would cut off records that they
had committed.

Source: KIP-595; Kafka 4.3 FileQuorumStateStore.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.storage import DISK, Storage, read_small
from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault

NAME: Final = "quorum-state"
STATIC_VOTERS_VERSION: Final = 0
"""The file's data_version when ``controller.quorum.voters`` names the voters."""

NOBODY: Final = -1

_NAMED_MAX: Final = 10
"""The maximum number of nodes that an error names."""

_Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class _Voter(msgspec.Struct, rename="camel"):
    """One voter of the file."""

    voter_id: _Int32


class _QuorumState(msgspec.Struct, rename="camel"):
    """The parts of the file that are checked."""

    data_version: _Int32 = msgspec.field(name="data_version")
    leader_id: _Int32 = -1
    voted_id: _Int32 = -1
    current_voters: list[_Voter] = []


def check_sole_voter(log_dir: Path, node_id: int, storage: Storage = DISK) -> None:
    """Reject a log that a quorum of other nodes wrote.

    Raises:
        LogDirectoryError: another node votes on the log, its voters are stored elsewhere, or the
            file cannot be read.
    """
    path = log_dir / METADATA_TOPIC_DIRECTORY / NAME
    try:
        state = msgspec.json.decode(read_small(storage, path), type=_QuorumState)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error
    except JSON_ERRORS as error:
        raise LogDirectoryError(f"{path}: {describe_json_fault(error)}") from error
    if state.data_version != STATIC_VOTERS_VERSION:
        raise LogDirectoryError(
            f"{path}: data_version is {state.data_version}: the voters are stored in the log "
            f"itself (KIP-853). Only a log with static voters can be written"
        )
    others = {voter.voter_id for voter in state.current_voters}
    others |= {state.leader_id, state.voted_id} - {NOBODY}
    others -= {node_id}
    if others:
        names = ", ".join(map(str, sorted(others)[:_NAMED_MAX]))
        names += ", …" if len(others) > _NAMED_MAX else ""
        raise LogDirectoryError(
            f"{path}: the log belongs to a quorum with node {names}. Only a log whose one voter "
            f"is node {node_id} can be written"
        )
