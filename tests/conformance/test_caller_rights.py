"""Callers of a daemon that follows a real cluster: rights here, and none in Kafka.

Their principals are those of users who can log in to the brokers, the worst case.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from authorizerd.daemon.console.setup import NEEDS
from authorizerd.daemon.decisions.stream_server import NEEDS as STREAM_NEEDS
from authorizerd.protocol.http.messages import GET
from authorizerd.protocol.http.rights import Right
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.decision_place import entry
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.cluster_settings import NODE, ClusterSettings
from tests.kafka_rig.followers import brokers_source
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl
from tests.support.api_documents import DECISION_ENDPOINTS
from tests.support.caller_rights import documents, is_forbidden
from tests.support.daemon_process import SECONDS_MAX, DaemonProcess, running, wait_until
from tests.support.kafka_connection import KafkaConnection
from tests.support.stream_connection import StreamConnection
from tools.surfaces import ENDPOINT_NEEDS

CALLERS: dict[str, tuple[Right, ...]] = {
    "asker": (Right.ASK,),
    "searcher": (Right.SEARCH,),
    "reader": (Right.READ,),
    "nobody": (),
}
PASSWORDS = {name: f"{name}-secret" for name in CALLERS}
DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def check_no_right_in_kafka(cluster: Cluster) -> None:
    """No caller may list or change ACLs, or see a topic, at any broker."""
    for broker in cluster.brokers:
        for name in CALLERS:
            with closing(KafkaConnection(broker.address, name, PASSWORDS[name])) as connection:
                described = connection.describe()
                assert not isinstance(described, list)
                assert described.code == DENIED
                [error] = connection.create(acl(f"User:{name}", topic="taken"))
                assert error is not None
                assert error.code == DENIED
                [topic] = connection.metadata("orders").topics
                assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def send(
    address: str, method: str, path: str, token: str, document: object = None
) -> tuple[int, bytes]:
    """Return the status, and the body unless the answer is a stream."""
    connection = HTTPConnection(address, timeout=SECONDS_MAX)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None if document is None else json.dumps(document)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        is_watch = response.getheader("Content-Type") == "text/event-stream"
        return response.status, b"" if is_watch else response.read()
    finally:
        connection.close()


def check_endpoints(daemon: DaemonProcess, name: str, as_of: int) -> int:
    """Compare every endpoint of the decision port with its table; return the number of answers."""
    rights, address = CALLERS[name], daemon.ready["decision_http"]
    asked = 0
    for endpoint in DECISION_ENDPOINTS:
        if endpoint.is_open:
            continue
        needs = ENDPOINT_NEEDS[f"{endpoint.methods[0]} {endpoint.path}"]
        path = endpoint.path.replace("{policy}", "a")
        if endpoint.methods == GET:
            cases = [(None, False, False)]
        else:
            cases = list(documents(endpoint, f"User:{name}", as_of))
        for document, own, past in cases:
            expected = is_forbidden(needs, rights, own=own, past=past)
            status, body = send(address, endpoint.methods[0], path, f"{name}.secret", document)
            assert status == (403 if expected else 200), (name, path, document, body)
            asked += 1
    return asked


def check_stream(daemon: DaemonProcess, name: str) -> None:
    with stream(daemon, name) as connection:
        for own, principal in ((False, "User:alice"), (True, f"User:{name}")):
            answer = connection.ask((principal, None, 3, 2, "orders"))
            expected = is_forbidden(STREAM_NEEDS, CALLERS[name], own=own)
            assert answer.error_code == (DENIED if expected else ErrorCode.NONE)


@contextmanager
def stream(daemon: DaemonProcess, name: str) -> Iterator[StreamConnection]:
    with closing(StreamConnection(daemon.ready["decision_stream"], f"{name}.secret")) as connection:
        yield connection


def check_pages(daemon: DaemonProcess, name: str, as_of: int) -> None:
    question = {"resource_type": "TOPIC", "resource_name": "orders", "operation": "READ"}
    for path, needs in NEEDS.items():
        for own, principal in ((False, "User:alice"), (True, f"User:{name}")):
            fields = question | {"principal": principal}
            if path == "/console/who":
                fields = question
            elif path == "/console/history":
                fields |= {"as_of": str(as_of)}
            elif path not in ("/console/explain", "/console/what"):
                fields = {}
            page = f"{path}?{urlencode(fields)}" if fields else path
            status, body = send(daemon.ready["admin_http"], "GET", page, f"{name}.secret")
            expected = is_forbidden(needs, CALLERS[name], own=own)
            assert status == (403 if expected else 200), (name, page, body)
            if path == "/console/live":
                is_refused = b"may not see denials of others" in body
                assert is_refused is (Right.READ not in CALLERS[name])


def test_callers_have_rights_here_and_none_in_kafka(rig: Rig, tmp_path: Path) -> None:
    """Every surface answers or refuses as docs/security-model.md says. No ACL names a caller."""
    node = replace(NODE, users={**NODE.users, **PASSWORDS})
    settings = ClusterSettings(controllers=1, brokers=2, node=node)
    with running_cluster(rig, tmp_path / "cluster", settings) as cluster:
        cluster.create(acl("User:alice", topic="orders"))
        check_no_right_in_kafka(cluster)
        tokens = tmp_path / "tokens"
        tokens.write_text("".join(entry(name, f"User:{name}") for name in CALLERS))
        config = {
            **brokers_source(cluster),
            "authorizerd.tokens.file": str(tokens),
            "authorizerd.console": "true",
            "authorizerd.audit.log": str(tmp_path / "audit.log"),
            **{
                f"authorizerd.callers.{right}": f"User:{name}"
                for name, rights in CALLERS.items()
                for right in rights
            },
        }
        with running(tmp_path, tmp_path / "copy", config) as daemon:

            def may_alice_read() -> bool:
                with stream(daemon, "asker") as connection:
                    return connection.ask(("User:alice", None, 3, 2, "orders")).decisions == b"\x01"

            wait_until(may_alice_read, "the daemon knows the ACL")
            with stream(daemon, "asker") as connection:
                as_of = connection.ask().offset
            asked = 0
            for name in CALLERS:
                asked += check_endpoints(daemon, name, as_of)
                check_stream(daemon, name)
                check_pages(daemon, name, as_of)
            assert asked >= 4 * 20
        check_no_right_in_kafka(cluster)
