"""Encodings that override `bias`: they add to the scores before the softmax.

In the formulas `i` indexes queries and `j` indexes keys; `q` and `k` are
``[B, H, N, E]``, `t` is ``[1 | B, N]``, and a bias of times alone ``[1 | B, H, N, N]``, so that one
matrix per head serves a batch of regular series.
"""
