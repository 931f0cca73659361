"""Send damaged and invented inputs to every reader of bytes and text that strangers can reach."""

import sys
from pathlib import Path

# As pytest's option pythonpath does, which ``python -m tests.fuzz`` does not read.
sys.path.append(str(Path(__file__).parents[2] / "clients/python/src"))
