"""
Where attention goes
====================

``attention`` returns the weights of every block and head, with the times of the tokens. They show
which tokens are mixed, not why a class was predicted; for that, see
:ref:`sphx_glr_gallery_explain_plot_relevance.py`.
"""

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.plots import plot_attention

X, y = load_dataset("ArrowHead", split="train")
classifier = TSTransformerClassifier(
    "alibi", d_model=16, n_layers=1, max_epochs=20, random_state=0
).fit(X, y)

maps = classifier.attention(X[:1])
n, layers, heads, tokens, _ = maps.weights.shape
print(f"{layers} block of {heads} heads, {tokens} tokens of a series of {X.shape[2]} steps")

# %%
# A row is a query. One head of ``alibi`` attends to near tokens:

near = plot_attention(maps.weights[0, 0, 0], maps.times[0], X[0], title="the first head")
near

# %%
# Another head attends to distant tokens:

far = plot_attention(maps.weights[0, 0, -1], maps.times[0], X[0], title="the last head")
far
