"""
An encoding of each hook
========================

An encoding acts in one of four places: it adds to the tokens (*embed*), rotates queries and keys
(*rotate*), adds to the scores (*bias*) or to the attention weights (*mix*). ``plot_encoding`` draws
its values, and their effect on pairs of positions. :doc:`/encodings` has all encodings.
"""

from tsformer.plots import plot_encoding

added_to_tokens = plot_encoding("tape", 64)
added_to_tokens

# %%
# ``rope`` rotates queries and keys by an angle that grows with time, so that the score of a pair
# depends on its distance alone.

turned = plot_encoding("rope", 64)
turned

# %%
# ``alibi`` subtracts a multiple of the distance from the scores, another in each head.

added_to_scores = plot_encoding("alibi", 64)
added_to_scores

# %%
# The weights of ``erpe`` start at zero; the picture has random weights. A sum has a row for each
# of its parts: ``plot_encoding("tape+erpe", 64)``.

added_to_weights = plot_encoding("erpe", 64)
added_to_weights
