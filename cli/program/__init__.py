"""How every program handles its arguments, signals and streams; ``replay`` uses it too."""
