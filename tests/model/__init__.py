"""The actors over the real log and a disk that fails, in virtual time, beside a simple model."""
