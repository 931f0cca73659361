import pytest
import trio

from authorizerd.kafka_client import mismatch, tls_stream
from tests.kafka_client.tls_cluster import TlsCluster

PATIENT_SECONDS = 30.0


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no probe of a server end early because the machine is busy."""
    monkeypatch.setattr(mismatch, "PROBE_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(tls_stream, "FETCH_TIMEOUT_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(tls_stream, "PATIENCE_SECONDS", PATIENT_SECONDS)


@pytest.fixture
async def cluster(nursery: trio.Nursery) -> TlsCluster:
    return TlsCluster(nursery)
