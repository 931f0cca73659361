"""SCRAM authentication and re-authentication: Kafka and the daemon give the same answers."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from tests.conformance.both_sides import decoded
from tests.conformance.generated_requests import Fields, encoded
from tests.conformance.kafka_peer import CLOSED, Peer
from tests.kafka_rig.broker import ADMIN, CLUSTER_ID, BrokerSettings, running_broker
from tests.kafka_rig.rig import Rig
from tests.support.daemon_process import run, running, write_config
from tests.support.sasl import SHA_256, SHA_512, ScramTokens

PREFIX: Final = "listener.name.sasl_plaintext."
PASSWORDS: Final = {name: f"{name}-secret" for name in (ADMIN, "alice", "bob")}
SESSIONS: Final = {
    f"{PREFIX}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{PREFIX}scram-sha-256.sasl.jaas.config": f"{SCRAM_LOGIN_MODULE} required;",
    f"{PREFIX}scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN_MODULE} required;",
    f"{PREFIX}connections.max.reauth.ms": "60000",
    f"{PREFIX}scram-sha-512.connections.max.reauth.ms": "1200",
}
"""Settings of both sides. A session with SCRAM-SHA-512 is short."""
USERS: Final = (("alice", SHA_256.text), ("alice", SHA_512.text), ("bob", SHA_256.text))
GOOD: Final = b"\0alice\0alice-secret"

Answer = Any
Story = Callable[["Client"], None]


class Client:
    """A connection that records its answers without their random parts."""

    def __init__(self, address: str) -> None:
        self._peer = Peer(address)
        self.answers: list[Answer] = []

    def ask(self, api_key: ApiKey, version: int, **fields: object) -> Answer:
        body = self._peer.ask(api_key, version, encoded(api_key, version, Fields(**fields)))
        answer = body if isinstance(body, str) else decoded(api_key, version, body)
        self.answers.append(_without_randomness(answer))
        return answer

    def choose(self, mechanism: str, version: int = 1) -> None:
        self.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)

    def send(self, token: bytes, version: int = 2) -> bytes:
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)
        return b"" if answer == CLOSED else bytes(answer["auth_bytes"])

    def send_raw(self, token: bytes) -> bytes:
        answer = self._peer.exchange(frame(token))
        self.answers.append(answer if isinstance(answer, str) else answer[:2])
        return b"" if isinstance(answer, str) else answer

    def log_in(self, tokens: ScramTokens, mechanism: str = SHA_256.text) -> None:
        self.choose(mechanism)
        if challenge := self.send(tokens.first()):
            self.send(tokens.final(challenge))

    def use(self) -> None:
        """Send a request that needs authentication."""
        self.ask(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=False)

    def close(self) -> None:
        self._peer.close()


def _without_randomness(answer: Answer) -> Answer:
    if answer == CLOSED:
        return answer
    kept = {
        name: value for name, value in answer.items() if name not in ("brokers", "controller_id")
    }
    if "mechanisms" in kept:
        kept["mechanisms"] = sorted(kept["mechanisms"])
    if kept.get("auth_bytes"):
        parts = bytes(kept["auth_bytes"]).split(b",")
        kept["auth_bytes"] = [part[:2] if part[:1] in b"rv" else part for part in parts]
    return kept


def alice(password: str = "alice-secret") -> ScramTokens:
    return ScramTokens("alice", password)


def raw_tokens(client: Client) -> None:
    tokens = alice()
    client.choose(SHA_256.text, 0)
    client.send_raw(tokens.final(client.send_raw(tokens.first())))
    client.use()


def malformed_raw_token(client: Client) -> None:
    client.choose(SHA_256.text, 0)
    client.send_raw(b"n,,n=alice")


def first_message(message: bytes) -> Story:
    def story(client: Client) -> None:
        client.choose(SHA_256.text)
        client.send(message)

    return story


def final_message(before: bytes, after: bytes) -> Story:
    def story(client: Client) -> None:
        client.choose(SHA_256.text)
        tokens = alice()
        final = tokens.final(client.send(tokens.first()))
        client.send(final.replace(before, after))

    return story


def other_proof(client: Client) -> None:
    client.choose(SHA_256.text)
    tokens = alice()
    start, _, proof = tokens.final(client.send(tokens.first())).partition(b"p=")
    client.send(b"%bp=%b%b" % (start, proof[3::-1], proof[4:]))


def versions(version: int) -> Story:
    def story(client: Client) -> None:
        tokens = alice()
        client.choose(SHA_256.text)
        client.send(tokens.final(client.send(tokens.first(), version)), version)
        client.use()

    return story


def log_in(mechanism: str, user: str, password: str) -> Story:
    def story(client: Client) -> None:
        tokens = ScramTokens(user, password, SHA_512 if "512" in mechanism else SHA_256)
        client.log_in(tokens, mechanism)

    return story


def again(*steps: Callable[[Client], object]) -> Story:
    """Log in with SCRAM-SHA-256, and then take these steps."""

    def story(client: Client) -> None:
        client.log_in(alice())
        for step in steps:
            step(client)

    return story


def pause(seconds: float) -> Callable[[Client], object]:
    return lambda client: time.sleep(seconds)


def expired(client: Client) -> None:
    client.log_in(ScramTokens("alice", "alice-secret", SHA_512), SHA_512.text)
    client.use()
    time.sleep(1.4)
    client.use()


def renewed(client: Client) -> None:
    for _ in range(2):
        client.log_in(ScramTokens("alice", "alice-secret", SHA_512), SHA_512.text)
        time.sleep(1.4)
    client.use()


def log_in_by_plain(client: Client) -> None:
    client.choose("PLAIN")
    client.send(GOOD)


STORIES: Final[dict[str, Story]] = {
    "SCRAM-SHA-256": log_in(SHA_256.text, "alice", "alice-secret"),
    "SCRAM-SHA-512": log_in(SHA_512.text, "alice", "alice-secret"),
    "wrong password": log_in(SHA_256.text, "alice", "wrong"),
    "PLAIN": log_in_by_plain,
    "raw tokens": raw_tokens,
    "raw token that is malformed": malformed_raw_token,
    "version 0": versions(0),
    "version 1": versions(1),
    "extension": first_message(b"n,,n=alice,r=abc,ext=1"),
    "own authorization id": first_message(b"n,a=alice,n=alice,r=abc"),
    "other authorization id": first_message(b"n,a=bob,n=alice,r=abc"),
    "no token": first_message(b""),
    "no nonce": first_message(b"n,,n=alice"),
    "channel binding": first_message(b"p=tls-unique,,n=alice,r=abc"),
    "channel binding is possible": first_message(b"y,,n=alice,r=abc"),
    "name of another encoding": first_message("n,,n=zoé,r=abc".encode()),
    "name with a bad escape": first_message(b"n,,n=ali=ce,r=abc"),
    "message of PLAIN": first_message(GOOD),
    "other nonce": final_message(b"r=", b"r=x"),
    "other proof": other_proof,
    "no proof": final_message(b",p=", b",q="),
    "invalid base64": final_message(b"p=", b"p=!"),
    "log in again": again(lambda client: client.log_in(alice()), Client.use),
    "log in again with a wrong password": again(lambda client: client.log_in(alice("wrong"))),
    "log in again as another user": again(
        lambda client: client.log_in(ScramTokens("bob", "bob-secret"))
    ),
    "log in again by another mechanism": again(log_in_by_plain),
    "log in again with raw tokens": again(raw_tokens),
    "log in twice again": again(
        lambda client: client.log_in(alice()), lambda client: client.choose(SHA_256.text),
        Client.use,
    ),
    "log in twice again, after a second": again(
        lambda client: client.log_in(alice()), pause(1.1), lambda client: client.log_in(alice()),
        Client.use,
    ),
    "token without a handshake": again(lambda client: client.send(GOOD), Client.use),
    "versions while logging in again": again(
        lambda client: client.choose(SHA_256.text),
        lambda client: client.ask(ApiKey.API_VERSIONS, 0),
    ),
    "expired session": expired,
    "renewed session": renewed,
}  # fmt: skip
ONLY_ANSWERED_BY_US: Final[dict[str, Story]] = {
    "proof of another size": final_message(b"p=", b"p=AAAA"),
    "log in again by an unknown mechanism": again(lambda client: client.choose("PLAIN2")),
}
UNKNOWN_USERS: Final = (
    log_in(SHA_256.text, "nobody", "wrong"),
    log_in(SHA_512.text, "bob", "bob-secret"),
)


def formatted(folder: Path) -> Path:
    added = [
        f"--add-scram={mechanism}=[name={name},password={PASSWORDS[name]}]"
        for name, mechanism in USERS
    ]
    config = write_config(folder, folder / "theirs")
    done = run(
        *("format", "--config", config, "--cluster-id", CLUSTER_ID),
        *("--release-version", "4.3-IV0"),
        *added,
    )
    assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "theirs", folder / "ours")
    return folder / "theirs"


@contextmanager
def running_ours(folder: Path) -> Iterator[str]:
    users = "".join(f' user_{name}="{password}"' for name, password in PASSWORDS.items())
    config = SESSIONS | {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        f"{PREFIX}plain.sasl.jaas.config": f"{PLAIN_LOGIN_MODULE} required{users};",
    }
    with running(folder, folder / "ours", config) as daemon:
        yield daemon.ready["listeners"]["SASL_PLAINTEXT"]


@pytest.fixture(scope="module")
def addresses(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return the listeners of Kafka and of the daemon, on copies of one log."""
    folder = tmp_path_factory.mktemp("logins")
    settings = BrokerSettings(users=PASSWORDS, more=SESSIONS)
    with (
        running_broker(rig, folder / "broker", formatted(folder), settings) as broker,
        running_ours(folder) as ours,
    ):
        yield broker.sasl_plaintext, ours


def record_answers(address: str, story: Story) -> list[Answer]:
    with closing(Client(address)) as client:
        story(client)
    return client.answers


@pytest.mark.parametrize("name", STORIES)
def test_same_answers(addresses: tuple[str, str], name: str) -> None:
    """Only the random parts differ."""
    theirs, ours = (record_answers(address, STORIES[name]) for address in addresses)
    assert ours == theirs


@pytest.mark.parametrize("story", UNKNOWN_USERS)
def test_only_kafka_reveals_unknown_users(addresses: tuple[str, str], story: Story) -> None:
    """Kafka refuses the first message. The daemon answers it, and refuses the second message."""
    theirs, ours = addresses
    handshake, refusal = record_answers(theirs, story)
    told_ours = record_answers(ours, story)
    assert (told_ours[0], told_ours[-1]) == (handshake, refusal)
    (challenge,) = told_ours[1:-1]
    assert challenge["error_code"] == 0


@pytest.mark.parametrize("name", ONLY_ANSWERED_BY_US)
def test_some_failures_are_answered_only_by_us(addresses: tuple[str, str], name: str) -> None:
    """Kafka closes the connection, because an exception does not reach the code that answers."""
    theirs, ours = (record_answers(address, ONLY_ANSWERED_BY_US[name]) for address in addresses)
    assert (ours[:-1], CLOSED) == (theirs[:-1], theirs[-1])
    assert ours[-1]["error_code"] != 0
