"""The clients in Python, with their versions: the rows of the matrix that need no JVM."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from confluent_kafka import libversion

from tests.client_matrix.aiokafka_admin import AiokafkaClient
from tests.client_matrix.calls import AdminClient
from tests.client_matrix.confluent import ConfluentClient
from tests.client_matrix.kafka_python import KafkaPythonClient

PYTHON_CLIENTS: Final[Mapping[str, type[AdminClient]]] = {
    "confluent-kafka": ConfluentClient,
    "kafka-python": KafkaPythonClient,
    "aiokafka": AiokafkaClient,
}


def python_versions() -> dict[str, str]:
    """Return the version of each client by its name."""
    versions = {name: version(name) for name in PYTHON_CLIENTS}
    versions["confluent-kafka"] += f" (librdkafka {libversion()[0]})"
    return versions
