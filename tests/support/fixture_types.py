"""Short names for the types of pytest's fixtures."""

import pytest

Capture = pytest.CaptureFixture[str]
LogCapture = pytest.LogCaptureFixture
MonkeyPatch = pytest.MonkeyPatch
TempPathFactory = pytest.TempPathFactory
