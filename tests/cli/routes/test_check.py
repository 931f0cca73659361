"""``authorizerd routes check``: faults, tests and requests of a file of routes."""

import json
from pathlib import Path

import pytest

from tests.support.printed import run_main

ROUTES = """\
routes:
  - POST /topics/{topic} -> WRITE TOPIC {topic}
  - GET /topics/{topic} -> READ TOPIC {topic}, DESCRIBE CLUSTER kafka-cluster
  - POST /consumers/{group} -> DENY the topics are named in the body
"""
TESTS = """\
tests:
  - POST /topics/a%20b -> WRITE TOPIC "a b"
  - POST /consumers/g -> DENY
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "routes.yaml"
    path.write_text(ROUTES + TESTS)
    return path


def test_valid_file_is_described_and_its_tests_pass(file: Path) -> None:
    assert run_main("routes", "check", file).out == (
        f"{file}: 3 routes, for the gateway nginx; the user is in X-Forwarded-User, the client's"
        " address in X-Real-IP\n"
        "always denied:\n"
        "  line 4: POST /consumers/{group}  the topics are named in the body\n"
        "2 tests of 2 passed\n"
    )


def test_requests_are_shown_with_their_routes(file: Path) -> None:
    words = (
        "POST /topics/x?a",
        "GET /topics/y",
        "POST /consumers/g",
        "GET /topics/a%2Fb",
        "PUT /a",
    )
    flags = [each for word in words for each in ("--request", word)]
    lines = run_main("routes", "check", file, *flags, code=3).out.splitlines()
    assert lines[3:-1] == [
        "POST /topics/x?a",
        "  asks WRITE TOPIC x, by line 2",
        "GET /topics/y",
        "  asks READ TOPIC y, DESCRIBE CLUSTER kafka-cluster, by line 3",
        "POST /consumers/g",
        "  is denied, by line 4: the topics are named in the body",
        "GET /topics/a%2Fb",
        "  is denied: the path has an encoded '/' (%2F)",
        "PUT /a",
        "  is denied: no route allows PUT /a",
    ]
    assert run_main("routes", "check", file, *flags[:4]).err == ""


def test_each_failing_test_is_named(file: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.write_text(
        "tests:\n"
        "  - GET /topics/x -> DESCRIBE CLUSTER kafka-cluster, READ TOPIC x\n"
        "  - GET /topics/x -> READ TOPIC x\n"
        "  - POST /topics/x -> DENY\n"
        "  - POST /consumers/g -> READ GROUP g\n"
        "  - PUT /x -> READ GROUP g\n"
    )
    assert run_main("routes", "check", file, "--tests", more, code=3).out.splitlines()[3:] == [
        f"FAILED {more}:3: GET /topics/x -> READ TOPIC x",
        "  expected READ TOPIC x, found READ TOPIC x, DESCRIBE CLUSTER kafka-cluster, by line 3",
        f"FAILED {more}:4: POST /topics/x -> DENY",
        "  expected DENY, found WRITE TOPIC x, by line 2",
        f"FAILED {more}:5: POST /consumers/g -> READ GROUP g",
        "  expected READ GROUP g, found DENY (the topics are named in the body), by line 4",
        f"FAILED {more}:6: PUT /x -> READ GROUP g",
        "  expected READ GROUP g, found DENY (no route allows PUT /x), by no route",
        "3 tests of 7 passed",
    ]


def test_json_has_the_same(file: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.write_text("tests:\n  - PUT /x -> READ GROUP g\n")
    words = ("--request", "POST /topics/x", "--tests", more, "--json")
    assert json.loads(run_main("routes", "check", file, *words, code=3).out) == {
        "gateway": "nginx",
        "principal_header": "X-Forwarded-User",
        "host_header": "X-Real-IP",
        "routes": 3,
        "denied": [
            {
                "line": 4,
                "route": "POST /consumers/{group}",
                "reason": "the topics are named in the body",
            }
        ],
        "requests": [
            {
                "method": "POST",
                "target": "/topics/x",
                "questions": ["WRITE TOPIC x"],
                "denial": "",
                "line": 2,
            }
        ],
        "passed": 2,
        "failed": [
            {
                "file": str(more),
                "line": 2,
                "test": "PUT /x -> READ GROUP g",
                "expected": "READ GROUP g",
                "found": "DENY",
                "reason": "no route allows PUT /x",
                "route": None,
            }
        ],
    }


def test_all_faults_of_a_file_are_printed(file: Path) -> None:
    file.write_text(f"{ROUTES}gateway: none\nother: \x1b[31m\n".replace("\x1b", "x"))
    printed = run_main("routes", "check", file, code=1)
    assert printed.out == ""
    assert printed.err == (
        f"{file}:5: gateway: expected one of nginx, traefik, caddy, envoy, found 'none'\n"
        f"{file}:6: other: unknown field: expected one of gateway, principal, host, routes, tests\n"
        "authorizerd: 2 faults in files of routes; nothing was checked\n"
    )


@pytest.mark.parametrize(("words", "code", "said"), [
    (["{folder}/none"], 1, "none: No such file or directory"),
    (["{folder}"], 1, "Is a directory"),
    (["{folder}/binary"], 1, "binary: expected UTF-8 text"),
    (["{folder}/long"], 1, "long: expected at most 1048576 bytes"),
    (["{folder}/routes.yaml", "--request", "/x"], 1, "--request: expected METHOD TARGET, such as"),
    (["{folder}/routes.yaml", "--tests", "{folder}/routes.yaml"], 1, "routes: unknown field"),
    ([], 2, "the following arguments are required: FILE"),
])  # fmt: skip
def test_unusable_arguments_are_named(file: Path, words: list[str], code: int, said: str) -> None:
    (file.parent / "binary").write_bytes(b"\xff")
    (file.parent / "long").write_bytes(b"#" * (1024 * 1024 + 1))
    arguments = [word.format(folder=file.parent) for word in words]
    assert said in run_main("routes", "check", *arguments, code=code).err


def test_names_are_escaped(file: Path) -> None:
    file.write_text(ROUTES + 'tests:\n  - "GET /\\u202ex -> READ TOPIC \\u001b[1m"\n')
    out = run_main("routes", "check", file, "--request", "GET /\u202ey", code=3).out
    assert all(line.isprintable() for line in out.split("\n"))
    assert "\\u202ey" in out
    assert "\\x1b[1m" in out


def test_group_lists_its_commands() -> None:
    assert "check a file of routes" in run_main("routes", "--help").out
    assert "COMMAND" in run_main("routes", code=2).err
