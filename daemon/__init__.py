"""The process: binds ports, starts the actors and servers, and ends them."""
