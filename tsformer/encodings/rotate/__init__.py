"""Encodings that override `rotate`: they map the queries and keys of every block.

`q` and `k` are ``[B, H, N, E]``, `t` is ``[1 | B, N]``.
"""
