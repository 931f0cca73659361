"""Scripts that use the JavaScript client, run by Node.js."""

import json
import shutil
from typing import Any, Final

import trio

from tests.support.daemon_process import ROOT

NODE: Final = shutil.which("node")
PACKAGE: Final = ROOT / "clients" / "javascript"


async def run(script: str, *arguments: object) -> Any:  # noqa: ANN401 - what the script returns, as JSON
    """Run the body of an async function with ``exported``, the client's exports, and ``given``."""
    assert NODE is not None
    package = json.dumps((PACKAGE / "index.js").as_uri())
    source = f"""
    import * as exported from {package};
    const given = {json.dumps(arguments)};
    const main = async () => {{ {script} }};
    console.log(JSON.stringify(await main()));
    """
    with trio.fail_after(60):
        done = await trio.run_process(
            [NODE, "--input-type=module", "-"], stdin=source.encode(),
            capture_stdout=True, capture_stderr=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
