"""One page of what a run of the pipeline found, for people; the same as JSON, for programs."""
