"""Encodings that override `rotate`: they act on the queries and keys of every block."""
