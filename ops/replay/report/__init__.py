"""``replay report``: show the results of a run on one page, and as JSON."""
