"""Encodings that add to the scores before the softmax; `i` indexes queries, `j` keys."""
