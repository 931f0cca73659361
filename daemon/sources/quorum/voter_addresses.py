"""Where the voters are, by the records in their own log (KIP-853).

The leader's answers name only the leader. A cluster may replace every address that the daemon knows
while no leader answers it, so it remembers the voters' addresses, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from authorizerd.kafka_client.address import Address
from authorizerd.protocol.records.voters import Voters


def choose_addresses(voters: Voters, leader: Address) -> Mapping[int, Address]:
    """Return the voters' addresses at the listener that the leader is reached at.

    Voters without this listener are left out; all are, if no voter has the leader's address.
    """
    names = {
        name
        for listeners in voters.values()
        for name, endpoint in listeners.items()
        if Address(*endpoint) == leader
    }
    return {
        node_id: Address(*listeners[name])
        for node_id, listeners in voters.items()
        for name in listeners
        if name in names
    }
