"""Encodings that map the queries and keys of every block."""
