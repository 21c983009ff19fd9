"""Encodings that override `mix`: they add to the output of attention.

In the formulas `i` indexes queries and `j` indexes keys; `v` is ``[B, H, N, E]`` and
`t` ``[1 | B, N]``.
"""
