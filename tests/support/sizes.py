"""How much the tests of random and large inputs try: little in ``make test``, all with ``WHOLE=1``.

``make test-whole`` runs them whole every night. A mutant's test is whole as well.
"""

import os
from typing import Final

WHOLE: Final = "WHOLE"
IS_WHOLE: Final = os.environ.get(WHOLE) == "1"


def size(few: int, whole: int) -> int:
    """Return ``few``, or ``whole`` with ``WHOLE=1``."""
    return whole if IS_WHOLE else few
