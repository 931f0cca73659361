"""Change metadata other than ACLs, and convert a failure to an error for each item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import LogWriteError, RejectedUpdateError, UpdateRefusedError
from authorizerd.actors.updates import PlanCluster
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

Results: TypeAlias = Mapping[str, ApiError | None]
"""The error of each item by its name, None for success."""


class ClusterUpdates(Protocol):
    """A writer of changes to metadata other than ACLs."""

    def change_cluster(
        self, plan: PlanCluster[Results], on_applied: Callable[[], None]
    ) -> Completion[Results]: ...


async def change_cluster(
    updates: ClusterUpdates,
    plan: PlanCluster[Results],
    names: Iterable[str],
    on_applied: Callable[[], None] = lambda: None,
) -> Results:
    """Return the results once the changes are durable and applied.

    If the update fails as a whole, each of ``names`` gets its error.
    """
    try:
        return await updates.change_cluster(plan, on_applied)
    except RejectedUpdateError as error:
        failed = ApiError(error.code, str(error))
    except UpdateRefusedError as error:
        failed = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, str(error))
    except LogWriteError as error:
        failed = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return dict.fromkeys(names, failed)
