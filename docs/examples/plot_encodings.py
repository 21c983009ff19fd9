"""
An encoding of each hook
========================

An encoding tells attention where in time a token is, in one of four places: it is added to the
tokens (*embed*), turns queries and keys (*rotate*), is added to the scores (*bias*), or to the
attention weights (*mix*). ``plot_encoding`` draws the values of one, and what they do to pairs of
positions. :doc:`/encodings` has all of them.
"""

from tsformer.plots import plot_encoding

added_to_tokens = plot_encoding("tape", 64)
added_to_tokens

# %%
# ``rope`` turns queries and keys by an angle that grows with time, so that the score of a pair
# depends on its distance alone.

turned = plot_encoding("rope", 64)
turned

# %%
# ``alibi`` subtracts a multiple of the distance from the scores, another in each head.

added_to_scores = plot_encoding("alibi", 64)
added_to_scores

# %%
# The weights that ``erpe`` adds start at zero; the picture has random ones. A sum of encodings is
# drawn with a row for each of its parts: ``plot_encoding("tape+erpe", 64)``.

added_to_weights = plot_encoding("erpe", 64)
added_to_weights
