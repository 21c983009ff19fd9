"""Scripts that write the documentation: tables, docs/encodings.md and pictures."""
