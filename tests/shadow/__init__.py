"""``verify --follow`` beside a real cluster; ``python -m tests.shadow`` runs it for some time."""
