"""What a replay reads: one request that an authorizer decided, from whichever log."""
