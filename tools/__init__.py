"""Programs of the developers: benchmark, release, generators of pages, examples."""
