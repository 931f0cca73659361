"""What authorizerd costs, beside its peers, in one run: ``make bench``."""
