"""`authorizerd doctor`: find problems that would prevent the daemon from running here."""
