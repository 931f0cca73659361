"""Begin and end grants beside the rounds, in a thread of their own, so that no plan delays an end.

Each looks at the ACLs again before it acts, so the two need not wait for each other.
"""

from __future__ import annotations

import threading
import time
from typing import Final, TypeVar

import trio

from authorizerd.acl.errors import AclError
from authorizerd.actors.grant_keeper import RETRY_SECONDS, GrantKeeper
from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.errors import CommandError
from authorizerd.config.errors import ConfigurationError
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.sources.cluster_grants import REQUEST_MS, ClusterGrants
from authorizerd.kafka_client.client import KafkaClient
from authorizerd.kafka_client.connection import Call
from authorizerd.kafka_client.errors import ConnectionFailedError, UnknownOutcomeError

T = TypeVar("T")


class GrantThread(threading.Thread):
    """Runs the keeper until the process ends.

    Args:
        enforces: False if grants are only counted.
    """

    def __init__(self, servers: str, command_config: str | None, *, enforces: bool) -> None:
        super().__init__(name="grants", daemon=True)
        self._place: Final = servers, command_config
        self._client: KafkaClient | None = None
        access = ClusterGrants(self._send, lambda: self._client and self._client.node)
        self.keeper: Final = GrantKeeper(access, now_ms, enforces=enforces)

    def check(self) -> None:
        """Raise CommandError if a defect has ended the thread, so that nobody relies on it."""
        if not self.is_alive():
            raise CommandError("the thread that begins and ends grants has ended by a defect")

    def run(self) -> None:
        while True:
            try:
                run_on_brokers(*self._place, self._keep)
            except (AclError, CommandError, ConfigurationError):
                time.sleep(RETRY_SECONDS)  # the rounds report the same

    async def _keep(self, reader: BrokerReader) -> None:
        self._client = reader.client
        await self.keeper.run()

    async def _send(self, call: Call[T], /) -> T:
        assert self._client is not None, "the keeper runs while there is a client"
        try:
            with trio.fail_after(REQUEST_MS / 1000):
                return await self._client.request_once(call, name="grants")
        except (UnknownOutcomeError, trio.TooSlowError) as error:
            raise ConnectionFailedError(str(error) or f"no answer in {REQUEST_MS} ms") from error
