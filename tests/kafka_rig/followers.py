"""The settings of a daemon that follows a cluster of the rig."""

from __future__ import annotations

from tests.kafka_rig.cluster import Cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, POLLER
from tests.kafka_rig.properties import client_properties


def quorum_source(cluster: Cluster, user: str = FOLLOWER) -> dict[str, str]:
    """Return the keys with which a daemon follows the controllers as ``user``."""
    login = client_properties(user, cluster.settings.node.users[user])["sasl.jaas.config"]
    return {
        "controller.quorum.bootstrap.servers": cluster.bootstrap_controllers,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": login,
    }


def brokers_source(cluster: Cluster, user: str = POLLER) -> dict[str, str]:
    """Return the keys with which a daemon polls the brokers as ``user``."""
    login = client_properties(user, cluster.settings.node.users[user])
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    prefixed = {f"authorizerd.source.{key}": value for key, value in (servers | login).items()}
    return {"authorizerd.source": "brokers", **prefixed}
