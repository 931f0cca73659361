"""What the JavaScript package exports, and its type declarations."""

import re
import shutil
from pathlib import Path

import pytest
import trio

from tests.clients.javascript import NODE, PACKAGE, run

TSC = shutil.which("tsc")
pytestmark = pytest.mark.skipif(NODE is None, reason="the client runs on Node.js: no 'node' found")


async def test_exports_are_declared() -> None:
    script = """
    const refused = new exported.TokenRefusedError("", 58);
    return [Object.keys(exported), refused instanceof exported.AnswerError];
    """
    exported, is_answer = await run(script)
    declared = (PACKAGE / "index.d.ts").read_text()
    assert set(exported) == set(re.findall(r"export (?:class|function) (\w+)", declared))
    assert is_answer


@pytest.mark.skipif(
    TSC is None, reason="the type declarations are compiled by TypeScript: no 'tsc'"
)
async def test_type_declarations_compile(tmp_path: Path) -> None:
    assert TSC is not None
    (tmp_path / "ask.mts").write_text(
        f'import {{ Client, AuthorizerdError }} from "{PACKAGE}/index.js";\n'
        'const tls = { ca: "x", cert: ["x"], key: new Uint8Array(1), rejectUnauthorized: true };\n'
        'const client = new Client("tls://a:1", { token: null, timeoutMs: 1, tls });\n'
        'const several = new Client(["a:1", "b:1"], { failoverTimeoutMs: 1 });\n'
        "several.readOffset({ timeoutMs: 1 }).then((offset) => client.requireOffset(offset));\n"
        "const may: Promise<boolean> = client.decide("
        '["User:alice", null, "READ", "TOPIC", "orders"], { minOffset: 1 });\n'
        "may.catch((error) => error instanceof AuthorizerdError);\n"
    )
    options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022"]
    done = await trio.run_process(
        [TSC, *options, tmp_path / "ask.mts"], capture_stdout=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()
