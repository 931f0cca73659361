"""The matrix as text."""

import pytest

from tests.client_matrix.calls import Call, Protocol
from tests.client_matrix.checks import NOT_OFFERED, OK
from tests.client_matrix.clients import PYTHON_CLIENTS
from tests.client_matrix.table import Matrix, document

NAME = "aiokafka"
NOTE = PYTHON_CLIENTS[NAME].notes[Call.ALTER_CONFIGS]


@pytest.fixture
def matrix() -> Matrix:
    """Return a matrix of two clients; only the first has outcomes, the same over all protocols."""
    matrix = Matrix()
    for name in (NAME, "confluent-kafka"):
        matrix.add_client(name, "1.2", PYTHON_CLIENTS[name])
    for protocol in Protocol:
        for call, outcome in {
            Call.CREATE_ACLS: f"{NOT_OFFERED}no call",
            Call.LIST_GROUPS: OK,
            Call.DESCRIBE_CONFIGS: "TypeError: no",
            Call.ALTER_CONFIGS: OK,
        }.items():
            matrix.record(NAME, protocol, call, outcome)
    return matrix


def tables(matrix: Matrix) -> list[dict[str, list[str]]]:
    """Return the cells of each table by the first cell of their row."""
    found: list[dict[str, list[str]]] = []
    for table in "\n".join(matrix.lines()).split("\n\n")[:2]:
        lines = table.splitlines()
        assert len({*map(len, lines)}) == 1, "the columns are not aligned"
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        found.append({name: cells for name, *cells in rows[:1] + rows[2:]})
    return found


def test_outcome_of_all_protocols_is_shown_once(matrix: Matrix) -> None:
    """A client without outcomes was not run."""
    calls, _ = tables(matrix)
    outcomes = {
        "create ACLs": "no call (1)",
        "list groups": "ok",
        "describe configs": "ERROR (2)",
        "alter configs": "ok (3)",
    }
    expected = {call.value: [outcomes.get(call, "not run"), "not run"] for call in Call}
    assert calls == {"call": [NAME, "confluent-kafka"], **expected}


def test_outcome_of_one_protocol_is_shown_with_its_name(matrix: Matrix) -> None:
    matrix.record(NAME, Protocol.SSL, Call.LIST_GROUPS, "OSError: reset")
    others = " and ".join(each for each in Protocol if each is not Protocol.SSL)
    assert tables(matrix)[0]["list groups"][0] == (
        f"ok over {others}; ERROR (2) over SSL, client auth none"
    )


def test_calls_are_counted_for_each_protocol(matrix: Matrix) -> None:
    """Calls that a client does not offer are left out."""
    del matrix.outcomes[NAME, Protocol.SSL, Call.LIST_GROUPS]
    offered = len(Call) - 1
    counts = {
        protocol.value: [f"2 of {offered} ok", f"0 of {len(Call)} ok"] for protocol in Protocol
    }
    counts[Protocol.SSL][0] = f"1 of {offered} ok"
    assert tables(matrix)[1] == {"protocol": [NAME, "confluent-kafka"], **counts}


def test_remark_is_listed_once_below_the_tables(matrix: Matrix) -> None:
    remarks = [line for line in matrix.lines() if line and not line.startswith("|")]
    assert remarks == ["1. no call.", "2. TypeError: no.", f"3. {NOTE}."]


def test_document_has_date_versions_and_table(matrix: Matrix) -> None:
    text = document(matrix, "2026-01-02")
    assert "2026-01-02 by `make conformance WRITE=1`" in text
    assert f"Versions: {NAME} 1.2, confluent-kafka 1.2." in text
    assert text.endswith("\n".join(matrix.lines()) + "\n")
