"""Encodings that override `mix`: they add to the output of attention.

In their formulas `i` is the token of the query and `j` that of the key; `v` is ``[B, H, N, E]`` and
`t` ``[1 | B, N]``.
"""
