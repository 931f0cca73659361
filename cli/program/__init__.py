"""How all programs, including ``replay``, handle arguments, signals and streams."""
