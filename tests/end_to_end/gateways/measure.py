"""Measure what a question to the daemon, or to OPA, adds to a request through a gateway.

    python -m tests.end_to_end.gateways.measure nginx

All sides have the gateway of the page and the same API; the daemon and OPA have the same ACLs, and
TLS. The sides take turns at 200 requests per second on 8 connections, and a latency counts from the
time when its request was due. On a machine with other load, run it by ``chrt -f 1``.

OPA is behind nginx only. Its ``/v0/data`` answers with 404 if nothing allows, and nginx turns this
into 403. nginx writes the input without escapes, so this way is good for measurements only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.end_to_end.gateways.gateway import GATEWAYS, Gateway
from tests.end_to_end.gateways.hostile import ALICE
from tests.end_to_end.gateways.raw_client import send as send_one
from tests.end_to_end.gateways.rig import running_gateway
from tests.support.acls import acl
from tests.support.certificates import Authority
from tests.support.kafka_connection import KafkaConnection
from tools.bench.peers import ready_opa
from tools.bench.sender import Plan, send
from tools.bench.servers import Server
from tools.processes import cpu_seconds

ACLS: Final = [
    *(acl(f"User:u{number % 1000}", "READ", topic=f"t{number}") for number in range(19_000)),
    *(acl("User:alice", "READ", topic=f"orders-{number}") for number in range(1000)),
]
AT_ONCE: Final = 1000
ROUNDS, SECONDS, RATE = 3, 7.0, 200.0

WITHOUT: Final = {
    "nginx": {"    auth_request /_authorizerd;": "    auth_request off;"},
    "haproxy": {
        "    http-request lua.forward-auth": "",
        "deny_status 503 unless { var(txn.answer) -m int 200 }": "if FALSE",
    },
    "caddy": {"forward_auth https": "forward_auth /never https"},
    "traefik": {"[users, authorizerd, headers]": "[users, headers]"},
    "envoy": {"- name: authorizerd # 2": "- disabled: true\n            name: authorizerd # 2"},
}
"""What replaces texts of the page, so that the gateway asks nobody."""

POLICY: Final = """\
package gateway
import rego.v1
operations := {"GET": "READ", "POST": "WRITE"}
allow if {
    some name
    split(input.path, "/") = ["", "topics", name]
    question := {"operation": operations[input.method], "type": "TOPIC", "name": name}
    data.kafka.authz.allow with input as object.union(input, question)
}
"""
OPA_ANSWERS: Final = """\
        proxy_pass https://authorizerd/v0/data/gateway/allow;
        proxy_method POST;
        proxy_set_header Content-Type application/json;
        proxy_set_body '{"method": "$request_method", "path": "$request_uri",
            "host": "$remote_addr", "principal": "User:$remote_user"}';
        proxy_intercept_errors on;
        error_page 404 =403 /denied;
"""


def ask(topic: str) -> bytes:
    """Return a request of alice's."""
    head = f"GET /topics/{topic} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {ALICE}"
    return f"{head}\r\n\r\n".encode()


@contextmanager
def through_daemon(folder: Path, gateway: Gateway) -> Iterator[tuple[str, int]]:
    """Yield the gateway's address and the daemon's process."""
    with running_gateway(folder, gateway) as rig, rig.daemon(level="INFO") as daemon:
        with closing(KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])) as admin:
            for start in range(0, len(ACLS), AT_ONCE):
                admin.create(*ACLS[start : start + AT_ONCE])
        yield rig.address, daemon.process.pid


@contextmanager
def through_opa(folder: Path, gateway: Gateway) -> Iterator[tuple[str, int]]:
    """Yield the address of nginx and OPA's process."""
    own = folder / "OPA"
    own.mkdir()
    authority = Authority(own)
    with ready_opa(own, ACLS, authority) as opa:
        assert isinstance(opa, Server), opa
        with closing(HTTPSConnection(opa.host, context=authority.client_context())) as connection:
            connection.request("PUT", "/v1/policies/gateway", POLICY)
            assert connection.getresponse().status == 200
        changes = {
            "    server 127.0.0.1:8181;": f"    server {opa.host};",
            "proxy_ssl_trusted_certificate ca.pem;": (
                f"proxy_ssl_trusted_certificate {authority.ca_file};"
            ),
            "        proxy_pass https://authorizerd/v1/forward-auth;\n": OPA_ANSWERS,
            "        proxy_pass_request_body off;\n": "",
            '        proxy_set_header Content-Length "";\n': "",
        }
        with running_gateway(folder, gateway, changes) as rig:
            yield rig.address, opa.process.process_id


def main(name: str) -> None:
    os.environ.setdefault("PYTHONPATH", "")  # as in the tests
    (gateway,) = (each for each in GATEWAYS if each.program == name)
    with TemporaryDirectory() as place, ExitStack() as stack:
        folders = [Path(place, side) for side in ("alone", "daemon", "OPA")]
        for folder in folders:
            folder.mkdir()
        alone = stack.enter_context(running_gateway(folders[0], gateway, WITHOUT[name]))
        sides = {
            "nobody": (alone.address, 0),
            "the daemon": stack.enter_context(through_daemon(folders[1], gateway)),
        }
        if name == "nginx":
            sides["OPA"] = stack.enter_context(through_opa(folders[2], gateway))
        for side, (address, process) in sides.items():
            statuses = [send_one(address, ask(topic)).status for topic in ("orders-1", "t1")]
            assert statuses == [200, 403 if process else 200], (side, statuses)
        times: dict[str, list[float]] = {side: [] for side in sides}
        used, asked = dict.fromkeys(sides, 0.0), dict.fromkeys(sides, 0)
        requests = [ask(f"orders-{number}") for number in range(1000)]
        for _ in range(ROUNDS):
            for side, (address, process) in sides.items():
                plan = Plan(
                    address=address, requests=requests, seconds=SECONDS, rate=RATE, connections=8,
                    skipped_seconds=1.0,
                )  # fmt: skip
                before = cpu_seconds(process) if process else 0.0
                report = send(plan)
                used[side] += (cpu_seconds(process) if process else 0.0) - before
                asked[side] += report.asked
                times[side] += report.times_ms
        for side, ms in times.items():
            ms.sort()
            half, most = ms[len(ms) // 2], ms[len(ms) * 99 // 100]
            microseconds = used[side] / asked[side] * 1e6
            print(  # noqa: T201 - a command prints
                f"{name} asks {side}: p50 {half:.2f} ms, p99 {most:.2f} ms of {len(ms)};"
                f" {microseconds:.0f} µs of its CPU time for each"
            )


if __name__ == "__main__":
    main(sys.argv[1])
