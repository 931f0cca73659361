"""The process: lifespan, sources, HTTP, command line."""
