"""Encodings that override `embed`: they act on the tokens before the first block."""
