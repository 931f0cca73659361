"""Run the same calls with every admin client, and record the results in one matrix."""
