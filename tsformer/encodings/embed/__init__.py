"""Encodings that add to the tokens before the first block."""
