"""Read recorded events: requests that an authorizer decided, from any supported log."""
