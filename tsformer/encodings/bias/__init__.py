"""Encodings that override `bias`: they add to the scores before the softmax."""
