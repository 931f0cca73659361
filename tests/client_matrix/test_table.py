"""The matrix as text."""

from __future__ import annotations

import pytest

from tests.client_matrix.checks import NOT_OFFERED, OK
from tests.client_matrix.clients import PYTHON_CLIENTS
from tests.client_matrix.deeds import Deed, Protocol
from tests.client_matrix.table import Matrix, document

NAME = "aiokafka"
NOTE = PYTHON_CLIENTS[NAME].notes[Deed.ALTER_CONFIGS]


@pytest.fixture
def matrix() -> Matrix:
    """One of two clients, on one protocol: two operations done, one not offered, one failed."""
    matrix = Matrix()
    for name in (NAME, "confluent-kafka"):
        matrix.add_client(name, "1.2", PYTHON_CLIENTS[name])
    for deed, outcome in {
        Deed.CREATE_ACLS: f"{NOT_OFFERED}no call",
        Deed.LIST_GROUPS: OK,
        Deed.DESCRIBE_CONFIGS: "TypeError: no",
        Deed.ALTER_CONFIGS: OK,
    }.items():
        matrix.record(NAME, Protocol.PLAINTEXT, deed, outcome)
    return matrix


def test_a_row_is_what_one_client_did_on_one_protocol(matrix: Matrix) -> None:
    """A cell each; an unused client has no row, and an operation not run has no remark."""
    table = [line for line in matrix.lines() if line.startswith("|")]
    assert len({*map(len, table)}) == 1, "the columns do not stand below each other"
    head, _, row = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert head == ["client", "protocol", *Deed]
    expected = {str(deed): "not run" for deed in Deed}
    assert dict(zip(head, row, strict=True)) == expected | {
        "client": NAME,
        "protocol": "PLAINTEXT",
        "create ACLs": "not offered (1)",
        "list groups": "ok",
        "describe configs": "ERROR (2)",
        "alter configs": "ok (3)",
    }


def test_a_remark_stands_below_the_table_by_its_number(matrix: Matrix) -> None:
    """One remark, however many cells refer to it."""
    matrix.record(NAME, Protocol.SASL_PLAINTEXT, Deed.ALTER_CONFIGS, OK)
    remarks = [line for line in matrix.lines() if line and not line.startswith("|")]
    assert remarks == ["1. no call.", "2. TypeError: no.", f"3. {NOTE}."]


def test_the_document_says_when_it_was_and_with_which_versions(matrix: Matrix) -> None:
    """Together with the table, as it is printed."""
    text = document(matrix, "2026-01-02")
    assert "2026-01-02 by `make conformance WRITE=1`" in text
    assert f"Versions: {NAME} 1.2, confluent-kafka 1.2." in text
    assert text.endswith("\n".join(matrix.lines()) + "\n")
