"""OAUTHBEARER with a real Kafka: its clients at our listener, and our clients at its listeners."""

import math
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient

from authorizerd.config.oauth import OAUTH_LOGIN_MODULE
from authorizerd.protocol.kafka.api import ApiKey
from tests.conformance.both_sides import decoded
from tests.conformance.followers import Follower
from tests.conformance.generated_requests import Fields, encoded
from tests.conformance.kafka_peer import Peer
from tests.kafka_rig.broker import ADMIN, Broker, BrokerSettings, format_storage, running_broker
from tests.kafka_rig.properties import find_lasting_ports, write_properties
from tests.kafka_rig.rig import Program, Rig, java_environment
from tests.support.certificates import Authority
from tests.support.daemon_process import DaemonProcess, new_log, run, running
from tests.support.issuer import (
    AUDIENCE,
    CLIENT,
    ISSUER,
    Issuer,
    claims_of,
    first_message,
    new_key,
    running_issuer,
    sign,
    unsecured,
)

VALIDATOR: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
)
SECONDS_MAX: Final = 60


@dataclass(frozen=True)
class World:
    """A broker and a daemon whose listeners take tokens of one issuer."""

    issuer: Issuer
    authority: Authority
    broker: Broker
    daemon: DaemonProcess
    folder: Path

    @property
    def addresses(self) -> Mapping[str, str]:
        port = self.broker.settings.listeners["OAUTH"][1]
        ours = self.daemon.ready["listeners"]["TOKENS"]
        return {"kafka": f"127.0.0.1:{port}", "ours": ours}

    @property
    def controller(self) -> str:
        return f"127.0.0.1:{self.broker.settings.listeners['QUORUM'][1]}"

    @property
    def login(self) -> dict[str, str]:
        """The keys of a client, as in Kafka 4.1 and newer."""
        credentials = "sasl.oauthbearer.client.credentials.client"
        return {
            "sasl.jaas.config": _login(self.authority),
            "sasl.oauthbearer.token.endpoint.url": f"{self.issuer.url}/token",
            f"{credentials}.id": CLIENT[0],
            f"{credentials}.secret": CLIENT[1],
        }

    def client_config(self, more: Mapping[str, str] | None = None) -> Path:
        path = self.folder / "client.properties"
        keys = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerLoginCallbackHandler",
        }
        write_properties(path, keys | self.login | dict(more or {}))
        return path


def _login(authority: Authority, more: str = "") -> str:
    stores = f'ssl.truststore.type="PEM" ssl.truststore.location="{authority.ca_file}"'
    return f"{OAUTH_LOGIN_MODULE} required {stores}{more};"


def _listener_keys(name: str, issuer: Issuer, authority: Authority) -> dict[str, str]:
    prefix = f"listener.name.{name}."
    return {
        f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
        # Kafka's login module also makes a token for the broker itself.
        f"{prefix}oauthbearer.sasl.jaas.config": _login(
            authority, ' unsecuredLoginStringClaim_sub="broker"'
        ),
        f"{prefix}oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        f"{prefix}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
        f"{prefix}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{prefix}sasl.oauthbearer.expected.issuer": ISSUER,
    }


@pytest.fixture(scope="module")
def world(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("oauth")
    authority = Authority(folder)
    with running_issuer(authority) as issuer:
        issuer.user = ADMIN
        ports = find_lasting_ports(2)
        settings = BrokerSettings(
            listeners={
                "OAUTH": ("SASL_PLAINTEXT", ports[0]),
                "QUORUM": ("SASL_PLAINTEXT", ports[1]),
            },
            more={
                "controller.listener.names": "CONTROLLER,QUORUM",
                **_listener_keys("oauth", issuer, authority),
                **_listener_keys("quorum", issuer, authority),
            },
            jvm_options=(*BrokerSettings().jvm_options, _allowed(issuer)),
        )
        assert format_storage(rig, folder, folder / "log").exit_code == 0
        own = folder / "own"
        own.mkdir()
        keys = _listener_keys("tokens", issuer, authority) | {
            "listeners": "TOKENS://127.0.0.1:0",
            "listener.security.protocol.map": "TOKENS:SASL_PLAINTEXT",
            "super.users": f"User:{ADMIN}",
        }
        with (
            running_broker(rig, folder, folder / "log", settings) as broker,
            running(own, new_log(own), keys) as daemon,
        ):
            yield World(issuer, authority, broker, daemon, folder)


def _allowed(issuer: Issuer) -> str:
    urls = f"{issuer.url}/keys,{issuer.url}/token"
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"


class Client:
    """A connection that keeps its answers; a lifetime is rounded to tens of seconds."""

    def __init__(self, address: str) -> None:
        self.peer = Peer(address)
        self.answers: list[object] = []

    def ask(self, api_key: ApiKey, version: int, **fields: object) -> None:
        body = self.peer.ask(api_key, version, encoded(api_key, version, Fields(**fields)))
        if isinstance(body, str):
            self.answers.append(body)
            return
        answer: Any = decoded(api_key, version, body)
        if lifetime := answer.get("session_lifetime"):
            answer = answer | {"session_lifetime": math.ceil(lifetime.total_seconds() / 10)}
        self.answers.append(answer)

    def choose(self) -> None:
        self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER")

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)


def token(user: str = "alice", **claims: Any) -> bytes:  # noqa: ANN401 - JSON
    return first_message(sign(claims_of(user, **claims)))


def renew(client: Client) -> None:
    client.send(token(seconds=30))
    client.choose()
    client.send(token(seconds=60))


def change_user(client: Client) -> None:
    client.send(token("alice"))
    client.choose()
    client.send(token("bob"))


STORIES: Final[Mapping[str, Callable[[Client], None]]] = {
    "valid": lambda client: client.send(token()),
    "extensions": lambda client: client.send(
        first_message(sign(claims_of()), more="traceId=1 2\x01")
    ),
    "authorization id": lambda client: client.send(first_message(sign(claims_of()), "n,a=alice,")),
    "other authorization id": lambda client: client.send(
        first_message(sign(claims_of()), "n,a=bob,")
    ),
    "session of a lifetime": lambda client: client.send(token(seconds=95)),
    "several audiences": lambda client: client.send(token(aud=["other", AUDIENCE])),
    "scopes": lambda client: client.send(token(scope=["a", "b"])),
    "expired": lambda client: client.send(token(seconds=-60), b"\x01"),
    "within the skew": lambda client: client.send(token(nbf=time.time() + 15)),
    "not yet valid": lambda client: client.send(token(nbf=time.time() + 90), b"\x01"),
    "without an end": lambda client: client.send(token(exp=None), b"\x01"),
    "without a time of issue": lambda client: client.send(token(iat=None), b"\x01"),
    "other audience": lambda client: client.send(token(aud="other"), b"\x01"),
    "without an audience": lambda client: client.send(token(aud=None), b"\x01"),
    "other issuer": lambda client: client.send(token(iss="https://other.test"), b"\x01"),
    "without a user": lambda client: client.send(token(sub=None), b"\x01"),
    "blank user": lambda client: client.send(token(" "), b"\x01"),
    "repeated scopes": lambda client: client.send(token(scope=["a", "a"]), b"\x01"),
    "other key": lambda client: client.send(first_message(sign(claims_of(), new_key())), b"\x01"),
    "unknown key": lambda client: client.send(
        first_message(sign(claims_of(), kid="unknown")), b"\x01"
    ),
    "unsecured": lambda client: client.send(first_message(unsecured(claims_of())), b"\x01"),
    "no token": lambda client: client.send(first_message("a.b.c"), b"\x01"),
    "malformed": lambda client: client.send(b"n,,\x01auth=Bearer a\x01"),
    "empty": lambda client: client.send(b""),
    "renewal": renew,
    "other user": change_user,
}


@pytest.mark.parametrize("story", STORIES)
def test_listener_answers_like_kafkas(world: World, story: str) -> None:
    told = {}
    for side, address in world.addresses.items():
        client = Client(address)
        with closing(client.peer):
            client.choose()
            STORIES[story](client)
            told[side] = client.answers
    assert told["ours"] == told["kafka"]


def test_session_ends_with_its_token_as_in_kafka(world: World) -> None:
    for address in world.addresses.values():
        client = Client(address)
        with closing(client.peer):
            client.choose()
            client.send(token(seconds=2))
            time.sleep(3)
            body = client.peer.ask(
                ApiKey.DESCRIBE_CLUSTER,
                0,
                encoded(
                    ApiKey.DESCRIBE_CLUSTER, 0, Fields(include_cluster_authorized_operations=False)
                ),
            )
            assert isinstance(body, str), (address, body)  # closed


def list_acls(address: str, config: Path) -> subprocess.CompletedProcess[str]:
    return run("acls", "--list", "--bootstrap-server", address, "--command-config", config)


@pytest.mark.parametrize("side", ["kafka", "ours"])
def test_javas_client_logs_in(rig: Rig, world: World, side: str) -> None:
    """It gets its token from the issuer by client credentials; so does ours."""
    arguments = ("--list", "--bootstrap-server", world.addresses[side])
    command = rig.command(
        Program.ACLS.main_class,
        *(*arguments, "--command-config", world.client_config()),
        options=("-Xmx512m", "-XX:TieredStopAtLevel=1", _allowed(world.issuer)),
    )
    theirs = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_MAX, env=java_environment()
    )
    assert theirs.returncode == 0, theirs.stdout + theirs.stderr
    ours = list_acls(world.addresses[side], world.client_config())
    assert ours.returncode == 0, ours.stdout
    wrong = world.client_config({"sasl.oauthbearer.client.credentials.client.secret": "wrong"})
    refused = list_acls(world.addresses[side], wrong)
    assert refused.returncode == 1
    assert "invalid_client" in refused.stdout
    assert "wrong" not in refused.stdout


@pytest.mark.parametrize("side", ["kafka", "ours"])
def test_librdkafka_logs_in(world: World, side: str) -> None:
    client = AdminClient(
        {
            "bootstrap.servers": world.addresses[side],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT[0],
            "sasl.oauthbearer.client.secret": CLIENT[1],
            "sasl.oauthbearer.token.endpoint.url": f"{world.issuer.url}/token",
            "https.ca.location": str(world.authority.ca_file),
        }
    )
    client.poll(5)  # it gets its token here
    assert client.list_topics(timeout=SECONDS_MAX).brokers


def test_daemon_follows_brokers_and_controllers_with_tokens(world: World, tmp_path: Path) -> None:
    """Sessions end after 20 s with their tokens; the daemon connects again with new ones."""
    world.broker.run(
        Program.ACLS, "--add", "--allow-principal", "User:alice", "--operation", "Read",
        "--topic", "orders",
    )  # fmt: skip
    prefix = "authorizerd.source."
    kafka = world.addresses["kafka"]
    brokers = {
        "authorizerd.source": "brokers",
        f"{prefix}bootstrap.servers": kafka,
        f"{prefix}security.protocol": "SASL_PLAINTEXT",
        f"{prefix}sasl.mechanism": "OAUTHBEARER",
        f"{prefix}poll.ms": "500",
        **{f"{prefix}{key}": value for key, value in world.login.items()},
    }
    own = "listener.name.controller.oauthbearer"
    quorum = {
        "controller.quorum.bootstrap.servers": world.controller,
        "controller.listener.names": "CONTROLLER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        **{f"{own}.{key}": value for key, value in world.login.items()},
    }
    asked = {"subject": {"type": "user", "id": "alice"}, "action": {"name": "Read"},
             "resource": {"type": "topic", "id": "orders"}}  # fmt: skip
    world.issuer.seconds = 20
    try:
        for name, source in {"brokers": brokers, "quorum": quorum}.items():
            before = world.issuer.asked.count("/token")
            with Follower(tmp_path / name, source) as follower:
                assert follower.evaluate(asked).json["decision"], name
                time.sleep(25)
                assert follower.readiness().status == 200
                assert world.issuer.asked.count("/token") > before + 1
                assert CLIENT[1] not in follower.log.read_text()
    finally:
        world.issuer.seconds = 300
