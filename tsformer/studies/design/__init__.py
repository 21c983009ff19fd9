"""The design of a study: trials, keys and files."""
