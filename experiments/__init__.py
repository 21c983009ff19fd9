"""Scripts that measure the package, and their results; not installed."""
