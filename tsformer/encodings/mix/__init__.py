"""Encodings that add to the output of attention; `i` indexes queries, `j` keys."""
