"""Programs for developers: benchmark, release, page generators, examples."""
