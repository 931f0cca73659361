"""What Kafka's own tools read from the files of a log."""

import json
import re
from pathlib import Path

from tests.kafka_rig.broker import Broker
from tests.kafka_rig.rig import Output, Program, Rig
from tests.support.kafka_acls_output import bindings

TRIES_MAX = 30
PAYLOAD = re.compile(r"payload: (\{.*\})$", re.MULTILINE)


def dump_records(rig: Rig, file: Path) -> list[tuple[str, dict[str, object]]]:
    """Return type and data of every record that kafka-dump-log prints; check every batch.

    kafka-dump-log expects a file to begin at offset 0, so it complains about any later segment,
    even one of Kafka's own.
    """
    done = rig.dump_log(file)
    base = int(file.stem) if file.suffix == ".log" else 0
    complaint = f"Non-consecutive offsets in {file}\n  -1 is followed by {base}\n"
    assert (done.exit_code, done.stderr) == (0, complaint if base else "")
    assert "isvalid: true" in done.stdout, done
    assert "isvalid: false" not in done.stdout, done
    payloads = map(json.loads, PAYLOAD.findall(done.stdout))
    return [(payload["type"], payload["data"]) for payload in payloads]


def tree_acls(rig: Rig, file: Path) -> dict[str, str]:
    """Return the ACLs by id that the metadata shell shows of a file, which it may load too late."""
    for _ in range(TRIES_MAX):
        found = shell_acls(rig.metadata_shell(file, "tree", "/image/acls"))
        if found:
            return found
    raise AssertionError(f"the metadata shell shows no ACLs of {file}")


def shell_acls(done: Output) -> dict[str, str]:
    """Return the ACLs by id in the metadata shell's tree of ``/image/acls``."""
    assert done.exit_code == 0, done
    heading, *lines = done.stdout.splitlines()
    assert heading == "byId:"
    return {
        uuid_line.strip().rstrip(":"): acl_line.strip()
        for uuid_line, acl_line in zip(lines[::2], lines[1::2], strict=True)
    }


def listed_acls(broker: Broker) -> set[tuple[str, str]]:
    done = broker.run(Program.ACLS, "--list")
    assert done.exit_code == 0, done
    return bindings(done.stdout)
