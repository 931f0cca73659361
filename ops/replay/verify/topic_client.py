"""Read the records of a topic of audit lines, with librdkafka.

Nothing is committed, and no group is joined: librdkafka only needs a name of one. Transactions that
were aborted are left out, since their writer repeats their lines.

**Invariant:** records come in order, from exactly the offsets that were asked for. Where a topic
lacks an offset, ``read`` says so, and never continues elsewhere.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from authorizerd.config.tls import TlsSettings
from authorizerd.kafka_client.client import ClientSettings
from authorizerd.kafka_client.log_in import Credentials
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.topics import Topic
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import read_material

GROUP: Final = "authorizerd-verify"
TIMEOUT_S: Final = 10.0
RECORDS_MAX: Final = 100_000
"""The most records of one call of ``read``."""

_WAIT_S: Final = 0.1
_RECORDS_A_CALL: Final = 5_000
_SETTINGS: Final = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "group.id": GROUP,
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 32 * 1024,
}
_MISSING: Final = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._LOG_TRUNCATION,
    KafkaError.OFFSET_OUT_OF_RANGE,
)


class Description(NamedTuple):
    """A topic now; ``topic_id`` changes if it is deleted and created again."""

    cluster_id: str
    topic_id: str
    partitions: tuple[int, ...]


class Record(NamedTuple):
    """A record, which is one line."""

    partition: int
    offset: int
    line: bytes


class Reading(NamedTuple):
    """What was read.

    Attributes:
        ends: the next offset of each partition that was read to its end.
        missing: the partitions that lack the offset to be read next.
    """

    records: list[Record]
    ends: dict[int, int]
    missing: set[int]


class TopicClient:
    """A client of one topic. Its methods block, and raise ``TrafficError`` without an answer."""

    def __init__(self, topic: Topic, settings: ClientSettings) -> None:
        self.topic = topic
        self._settings: Final = settings
        self._problem = self._cluster_id = ""
        self._consumer: Consumer | None = None
        with self._named_errors(), _configure(topic, settings) as own:
            own["error_cb"] = self._note
            self._admin: Final = AdminClient(own)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def describe(self) -> Description:
        """Return the topic's ids and its partitions."""
        asked = self._admin.describe_topics(
            TopicCollection([self.topic.name]), request_timeout=TIMEOUT_S
        )
        with self._named_errors():
            found = asked[self.topic.name].result()
            self._cluster_id = self._cluster_id or self._admin.cluster_id(TIMEOUT_S) or ""
        self._problem = ""
        partitions = tuple(each.id for each in found.partitions)
        return Description(self._cluster_id, str(found.topic_id), partitions)

    def find_range(self, partition: int) -> tuple[int, int]:
        """Return the offset of the first record that the topic still has, and the next one."""
        with self._named_errors():
            place = TopicPartition(self.topic.name, partition)
            begin, end = self._open().get_watermark_offsets(place, timeout=TIMEOUT_S)
        return begin, end

    def find_end(self, partition: int) -> int:
        """Return the end of a partition as the last answer has it, negative before."""
        place = TopicPartition(self.topic.name, partition)
        return int(self._open().get_watermark_offsets(place, cached=True)[1])

    def start(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions next, each from an offset, and no others."""
        with self._named_errors():
            self._open().assign(
                [TopicPartition(self.topic.name, *each) for each in offsets.items()]
            )

    def read(self, bytes_max: int) -> Reading:
        """Return the next records, about ``bytes_max`` of them; waits for a moment."""
        found = Reading([], {}, set())
        size = 0
        while size < bytes_max and len(found.records) < RECORDS_MAX:
            with self._named_errors():
                messages = self._open().consume(_RECORDS_A_CALL, _WAIT_S)
            for message in messages:
                partition, offset, error = message.partition(), message.offset(), message.error()
                if partition is None or offset is None or message.topic() is None:
                    self._note(error)  # a broker that is away, or the group, which nobody needs
                elif error is not None:
                    self._look(partition, offset, error, found)
                else:
                    value = message.value() or b""
                    size += len(value)
                    found.records.append(Record(partition, offset, value))
            if len(messages) < _RECORDS_A_CALL:
                break
        return found

    def _look(self, partition: int, offset: int, error: KafkaError, found: Reading) -> None:
        """Note an event of a partition that is not a record."""
        if error.code() == KafkaError._PARTITION_EOF:
            found.ends[partition] = offset
        elif error.code() in _MISSING:
            found.missing.add(partition)
        else:
            raise TrafficError(f"{self.topic.uri}: partition {partition}: {error.str()}")

    def _open(self) -> Consumer:
        if self._consumer is None:
            with _configure(self.topic, self._settings) as own:
                self._consumer = Consumer({**own, **_SETTINGS, "error_cb": self._note})
        return self._consumer

    def _note(self, error: KafkaError | None) -> None:
        # An earlier error says why all brokers are down.
        if error is not None and not (
            self._problem and error.code() == KafkaError._ALL_BROKERS_DOWN
        ):
            self._problem = error.str()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn librdkafka's errors into ours, with the latest reason that it knows."""
        try:
            yield
        except StoreError as error:
            raise TrafficError(f"--command-config: {error}") from error
        except KafkaException as error:
            if hasattr(self, "_admin"):
                self._admin.poll(0)  # calls ``_note``
            fault = error.args[0]
            is_late = fault.code() == KafkaError._TIMED_OUT
            text = f"no answer in {TIMEOUT_S:g} s" if is_late else fault.str()
            more = f": {self._problem}" if self._problem not in ("", text) else ""
            raise TrafficError(f"{self.topic.uri}: {text}{more}") from error


@contextmanager
def _configure(topic: Topic, settings: ClientSettings) -> Iterator[dict[str, Any]]:
    """Yield librdkafka's settings for a client that is created in the block.

    Raises:
        StoreError: a keystore or a truststore cannot be read.
        TrafficError: the mechanism is neither PLAIN nor SCRAM.
    """
    login, tls = settings.credentials, settings.tls
    protocol = ("SASL_" if login else "") + ("SSL" if tls else "PLAINTEXT")
    own: dict[str, Any] = {
        "bootstrap.servers": topic.servers,
        "client.id": GROUP,
        "log_level": 0,  # ``error_cb`` gets the errors
        "security.protocol": protocol,
    }
    if login is not None:
        if not isinstance(login, Credentials):
            reason = "expected PLAIN or SCRAM as sasl.mechanism: topics are read by librdkafka"
            raise TrafficError(f"{topic.uri}: {reason}")
        own["sasl.mechanism"] = str(login.mechanism)
        own["sasl.username"], own["sasl.password"] = login.username, login.password
    with ExitStack() as stack:
        if tls is not None:
            own |= _configure_tls(tls, stack)
        yield own


def _configure_tls(tls: TlsSettings, stack: ExitStack) -> dict[str, str]:
    material = read_material(tls)
    own = {"ssl.endpoint.identification.algorithm": "https" if tls.checks_host else "none"}
    if tls.cipher_suites:
        own["ssl.cipher.suites"] = ":".join(tls.cipher_suites)
    if tls.truststore is None:
        own["ssl.ca.location"] = "probe"  # the system's
    else:
        own["ssl.ca.pem"] = "".join(map(ssl.DER_cert_to_PEM_cert, material.trusted))
    if material.key:
        # Only from a file are the certificates of the issuers sent, too.
        descriptor = os.memfd_create("keystore", os.MFD_CLOEXEC)
        stack.callback(os.close, descriptor)
        with open(descriptor, "w", closefd=False) as file:
            file.writelines(map(ssl.DER_cert_to_PEM_cert, material.chain))
        own["ssl.certificate.location"] = f"/proc/self/fd/{descriptor}"
        key = load_der_private_key(material.key, None)
        own["ssl.key.pem"] = key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode()
    return own
