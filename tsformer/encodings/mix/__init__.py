"""Encodings that override `mix`: they add to the output of attention."""
