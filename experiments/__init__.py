"""Scripts that measure the package, and the results they gave; no part of what is installed."""
