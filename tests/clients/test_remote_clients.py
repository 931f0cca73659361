"""What the JavaScript and Java clients do besides what all clients share."""

from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from authorizerd_client import ClosedError, ConnectionLostError, TimedOutError
from tests.clients.python_clients import NewClient
from tests.clients.remote_clients import REMOTE, OtherError, start_driver
from tests.clients.stand_in import GREETING, start_stand_in
from tests.clients.tls_peer import TlsFiles
from tests.daemon.stream_service import until
from tests.fuzz.mutations import mutate
from tests.fuzz.target import frame_contents, in_pieces
from tests.fuzz.targets.libraries import COUNTS, stream_seeds
from tests.support.sizes import size

ALICE = ("User:alice", None, "READ", "TOPIC", "orders")
DAMAGED = size(600, 30_000)
BATCH = 300

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
in_other_languages = pytest.mark.parametrize("new_client", REMOTE, indirect=True)
in_java = pytest.mark.parametrize("new_client", ["java"], indirect=True)


@pytest.mark.parametrize("language", REMOTE)
def test_damaged_answer_is_never_a_permission(language: str) -> None:
    """Only an answer to the questions allows anything, and it allows what it says."""
    driver, random = start_driver(language), Random(1)
    seeds = [*stream_seeds()]
    allowing = 0
    for _ in range(DAMAGED // BATCH):
        inputs = [mutate(random, random.choice(seeds), seeds) for _ in range(BATCH)]
        pieces = [in_pieces(each) for each in inputs]
        for data, settled in zip(inputs, driver.call("receive", pieces, COUNTS), strict=True):
            allowing += check_settled(data, settled)
    assert allowing > DAMAGED // 100, "some inputs must still be answers"


def check_settled(data: bytes, settled: list[tuple[int, list[int], list[bool]] | None]) -> bool:
    """Compare decisions with what the bytes say; return True if anything is allowed."""
    frames = [*frame_contents(data)]
    allows = False
    if settled:
        word, _, error, *_ = msgspec.msgpack.decode(frames[0])
        assert (word, error) == ("hello", 0), data
    for number, decisions in enumerate(settled, 1):
        said = msgspec.msgpack.decode(frames[number])
        assert isinstance(said, list), data
        if decisions is not None:
            offset, codes, allowed = decisions
            assert said[:4] == [number, 0, offset, bytes(codes)], data
            assert len(codes) == COUNTS[number - 1], data
            assert allowed == [code == 1 for code in codes], data
            allows = allows or any(allowed)
    return allows


@pytest.mark.parametrize("language", REMOTE)
def test_msgpack_is_read_as_it_was_written(language: str) -> None:
    """The values have every size. An incomplete value is an error, and so is what follows one."""
    driver = start_driver(language)
    integers = [0, 127, 128, 255, 256, 2**16, 2**32, 2**40, 2**52, -1, -32, -33, -129, -(2**52)]
    texts = ["", "é" * 10, "é" * 200, "x" * 70_000, "\U0001f600"]
    arrays = [[], ["a", [1]], ["a"] * 15, ["a"] * 16, ["a"] * 70_000]
    for value in (None, *integers, *texts, *arrays):
        written = msgspec.msgpack.encode(value)
        assert msgspec.msgpack.decode(driver.call("recode", written)) == value
        for damaged in (written[:-1], written + b"\xc0"):
            with pytest.raises((OtherError, ValueError)):
                driver.call("recode", damaged)


@in_other_languages
@pytest.mark.parametrize("content", ["no PEM", "-----BEGIN CERTIFICATE-----\nAA==\n"])
async def test_invalid_certificate_is_rejected(
    new_client: NewClient, tmp_path: Path, content: str
) -> None:
    (tmp_path / "client.pem").write_text(content)
    with pytest.raises((OtherError, ValueError), match="PEM"):
        new_client("tls://h:1", tls=TlsFiles(certificate=tmp_path / "client.pem"))


@in_other_languages
@pytest.mark.parametrize("scheme", ["tcp:", "tls:"])
async def test_close_ends_an_attempt_to_connect(
    new_client: NewClient, nursery: trio.Nursery, scheme: str
) -> None:
    silent = await start_stand_in(nursery, then_closes=False)
    client = new_client(silent.replace("tcp:", scheme), timeout_seconds=600)

    async def close() -> None:
        await trio.sleep(0.1)
        client.close()

    nursery.start_soon(close)
    with pytest.raises(ClosedError):
        await client.decide(ALICE)


@in_other_languages
async def test_call_that_waits_for_room_ends_at_its_limit(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    unanswered: list[bytes] = []
    address = await start_stand_in(nursery, GREETING, then_closes=False, unanswered=unanswered)
    client = new_client(address, timeout_seconds=0.4, frames_in_flight_max=2)
    errors: list[str] = []

    async def ask() -> None:
        with pytest.raises((TimedOutError, ConnectionLostError)) as raised:
            await client.decide(ALICE)
        errors.append(type(raised.value).__name__)

    await client.connect()
    async with trio.open_nursery() as asking:
        for _ in range(5):
            asking.start_soon(ask)
        await until(lambda: len([*frame_contents(b"".join(unanswered))]) >= 2)
        await trio.sleep(0.1)
        assert len([*frame_contents(b"".join(unanswered))]) == 2
    assert len(errors) == 5
    assert "TimedOutError" in errors


KEYS: dict[str, PrivateKey] = {
    "EC": ec.generate_private_key(ec.SECP256R1()),
    "EC, 521 bits": ec.generate_private_key(ec.SECP521R1()),
    "RSA": rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
}
FORMATS = {
    "PKCS 8": (serialization.PrivateFormat.PKCS8, None),
    "traditional": (serialization.PrivateFormat.TraditionalOpenSSL, None),
    "encrypted": (serialization.PrivateFormat.PKCS8, b"pass"),
    "traditional, encrypted": (serialization.PrivateFormat.TraditionalOpenSSL, b"pass"),
}


@pytest.mark.parametrize("algorithm", KEYS)
def test_java_reads_keys_in_every_format(tmp_path: Path, algorithm: str) -> None:
    driver, key, file = start_driver("java"), KEYS[algorithm], tmp_path / "key.pem"
    for name, (form, password) in FORMATS.items():
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password)
        )
        with suppress(ValueError):  # Ed25519 has no traditional format
            file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
            if name == "traditional, encrypted":
                with pytest.raises(ValueError, match="openssl pkcs8 -topk8") as refused:
                    driver.call("readKey", file, "pass")
                assert str(file) in str(refused.value)
                continue
            text = None if password is None else password.decode()
            read = serialization.load_der_private_key(driver.call("readKey", file, text), None)
            assert isinstance(read, PrivateKey)
            assert read.public_key() == key.public_key()
            for wrong in [] if password is None else (None, "wrong"):
                with pytest.raises(ValueError, match="invalid private key"):
                    driver.call("readKey", file, wrong)


@in_java
async def test_calls_above_the_limits_are_refused_at_once(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    """The limits of calls and of bytes include those that wait for a connection or for room."""
    for silent in (
        await start_stand_in(nursery, then_closes=False),
        await start_stand_in(nursery, GREETING, then_closes=False),
    ):
        for limits in ({"calls_max": 4}, {"bytes_max": 130}):
            client = new_client(silent, timeout_seconds=0.4, frames_in_flight_max=1, **limits)
            names: list[str] = []

            async def ask(client: object = client, names: list[str] = names) -> None:
                try:
                    await client.decide(ALICE)  # type: ignore[attr-defined] # of either limit
                except Exception as error:  # noqa: BLE001 - the names are compared
                    names.append(getattr(error, "name", type(error).__name__))

            async with trio.open_nursery() as asking:
                for _ in range(6):
                    asking.start_soon(ask)
            assert names[:2] == ["TooManyCallsError"] * 2
            assert set(names[2:]) <= {"TimedOutError", "ConnectionLostError"}
            names.clear()
            await ask()
            assert names[0] in ("TimedOutError", "ConnectionLostError"), "limits are given back"


@in_java
async def test_threads_end_and_callers_may_leave(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    silent = await start_stand_in(nursery, GREETING, then_closes=False)
    with trio.fail_after(60):
        outcomes = await trio.to_thread.run_sync(start_driver("java").call, "leave", silent)
    assert outcomes == [
        "interrupted: CallInterruptedError, flag true",
        "cancelled: true",
        "after both: TimedOutError",  # although the client may hold only one call
        "in its own thread: IllegalStateError",
        "rejected by the executor: TimedOutError",
        "null: NullPointerError, NullPointerError",
        "its thread failed: ClosedError, ClosedError, ClosedError",
        "closed: ClosedError",
        "threads: []",
    ]
