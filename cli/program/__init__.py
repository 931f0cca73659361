"""What every program does with its arguments, signals and streams; ``replay`` uses it too."""
