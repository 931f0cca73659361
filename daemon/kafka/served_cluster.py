"""The cluster as clients see it: one node, with each listener's advertised address."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Node(msgspec.Struct, frozen=True):
    """This daemon's address for clients."""

    node_id: int
    host: str
    port: int


class Cluster(msgspec.Struct):
    """The nodes by listener.

    ``cluster_id`` is empty until it is known: the daemon learns that of a followed cluster.
    """

    cluster_id: str
    nodes: Mapping[str, Node]
    controller_listeners: frozenset[str]

    def node_of(self, listener_name: str) -> Node:
        return self.nodes[listener_name]
