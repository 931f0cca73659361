"""The JSON holds what the page says, and all of the results."""

from __future__ import annotations

import json
from pathlib import Path

from authorizerd.replay.report.document import encode_document
from authorizerd.replay.report.findings import findings
from authorizerd.replay.report.results import read_results
from tests.ops.replay.report.examples import write_results


def test_results_stand_in_it_as_they_were_written(tmp_path: Path) -> None:
    """With a version, the findings, and the hashes of the files."""
    write_results(tmp_path, "User:\u202e</script>")
    results = read_results(tmp_path)
    document = json.loads(encode_document(results, findings(results)))
    assert list(document) == ["version", "findings", "files", "results"]
    assert document["version"] == 1
    for kind in ("ingest", "whatif", "usage", "load"):
        assert document["results"][kind] == json.loads((tmp_path / f"{kind}.json").read_text())
        assert document["files"][kind]["path"] == f"{kind}.json"
    assert document["findings"][0]["state"] == "bad"
