"""Add runs of random tests to the track record, and write its table.

python -m tests.track_record [FILE…]

Each line of a file is a run, as ``.ci/nightly`` writes it. The files are removed.
"""

import sys
from pathlib import Path

from tests.track_record.hours import add_files

if __name__ == "__main__":
    add_files(map(Path, sys.argv[1:]))
