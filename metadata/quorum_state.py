"""``quorum-state``: who votes on a log. Only a log of one voter, this node, may be written here.

Law: a log that other nodes vote on is theirs. An epoch begun on a copy of it would, given back to
them, cut off what they had committed.

Source: KIP-595; Kafka 4.3 FileQuorumStateStore.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.storage import DISK, Storage, read_small

NAME: Final = "quorum-state"
STATIC_VOTERS_VERSION: Final = 0
"""The data_version of the file where ``controller.quorum.voters`` names the voters."""

NOBODY: Final = -1


class _Voter(msgspec.Struct, rename="camel"):
    voter_id: int


class _QuorumState(msgspec.Struct, rename="camel"):
    data_version: int = msgspec.field(name="data_version")
    leader_id: int = -1
    voted_id: int = -1
    current_voters: list[_Voter] = []


def check_sole_voter(log_dir: Path, node_id: int, storage: Storage = DISK) -> None:
    """Refuse a log that a quorum of other nodes has written.

    Raises:
        LogDirectoryError: another node votes on the log, its voters stand elsewhere, or the file
            cannot be read.
    """
    path = log_dir / METADATA_TOPIC_DIRECTORY / NAME
    try:
        state = msgspec.json.decode(read_small(storage, path), type=_QuorumState)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LogDirectoryError(f"{path}: {error.strerror or error}") from error
    except msgspec.MsgspecError as error:
        raise LogDirectoryError(f"{path}: {error}") from error
    if state.data_version != STATIC_VOTERS_VERSION:
        raise LogDirectoryError(
            f"{path}: data_version is {state.data_version}: the voters of the log stand in the log "
            f"itself (KIP-853); only a log with static voters may be written"
        )
    others = {voter.voter_id for voter in state.current_voters}
    others |= {state.leader_id, state.voted_id} - {NOBODY}
    others -= {node_id}
    if others:
        names = ", ".join(map(str, sorted(others)))
        raise LogDirectoryError(
            f"{path}: the log belongs to a quorum with node {names}; only a log whose one voter "
            f"is node {node_id} may be written"
        )
