"""The matrix as text."""

from __future__ import annotations

import pytest

from tests.client_matrix.calls import Call, Protocol
from tests.client_matrix.checks import NOT_OFFERED, OK
from tests.client_matrix.clients import PYTHON_CLIENTS
from tests.client_matrix.table import Matrix, document

NAME = "aiokafka"
NOTE = PYTHON_CLIENTS[NAME].notes[Call.ALTER_CONFIGS]


@pytest.fixture
def matrix() -> Matrix:
    """Return a matrix of two clients; only one has outcomes, and only on one protocol."""
    matrix = Matrix()
    for name in (NAME, "confluent-kafka"):
        matrix.add_client(name, "1.2", PYTHON_CLIENTS[name])
    for call, outcome in {
        Call.CREATE_ACLS: f"{NOT_OFFERED}no call",
        Call.LIST_GROUPS: OK,
        Call.DESCRIBE_CONFIGS: "TypeError: no",
        Call.ALTER_CONFIGS: OK,
    }.items():
        matrix.record(NAME, Protocol.PLAINTEXT, call, outcome)
    return matrix


def test_row_has_the_outcomes_of_a_client_and_protocol(matrix: Matrix) -> None:
    """A client without outcomes has no row."""
    table = [line for line in matrix.lines() if line.startswith("|")]
    assert len({*map(len, table)}) == 1, "the columns are not aligned"
    head, _, row = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert head == ["client", "protocol", *Call]
    expected = {str(call): "not run" for call in Call}
    assert dict(zip(head, row, strict=True)) == expected | {
        "client": NAME,
        "protocol": "PLAINTEXT",
        "create ACLs": "not offered (1)",
        "list groups": "ok",
        "describe configs": "ERROR (2)",
        "alter configs": "ok (3)",
    }


def test_remark_is_listed_once_below_the_table(matrix: Matrix) -> None:
    matrix.record(NAME, Protocol.SASL_PLAINTEXT, Call.ALTER_CONFIGS, OK)
    remarks = [line for line in matrix.lines() if line and not line.startswith("|")]
    assert remarks == ["1. no call.", "2. TypeError: no.", f"3. {NOTE}."]


def test_document_has_date_versions_and_table(matrix: Matrix) -> None:
    text = document(matrix, "2026-01-02")
    assert "2026-01-02 by `make conformance WRITE=1`" in text
    assert f"Versions: {NAME} 1.2, confluent-kafka 1.2." in text
    assert text.endswith("\n".join(matrix.lines()) + "\n")
