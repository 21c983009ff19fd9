"""Encodings that override `embed`: they add to the tokens before the first block.

Tokens `x` are ``[B, N, D]``, their times `t` ``[1 | B, N]``.
"""
