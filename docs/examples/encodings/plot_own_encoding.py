"""
An encoding of your own
=======================

Give a subclass a name, and the name works everywhere: in estimators, in sums such as
``"ramp+erpe"``, in studies and in pictures. It overrides one of four hooks, here ``embed``, which
adds to the tokens. :doc:`/how_it_works` has the others.
"""

import torch
from torch import nn

from tsformer import TSTransformerClassifier
from tsformer.data import make_order_task
from tsformer.encodings import PositionalEncoding
from tsformer.plots import plot_encoding


class Ramp(PositionalEncoding, name="ramp", replace=True):
    """Add a learned direction, in proportion to the time: ``x + w t / L``."""

    def __init__(self, *, d_model, n_heads, max_len, init_std=0.02):
        super().__init__()
        self.weight = nn.Parameter(init_std * torch.randn(d_model))
        self.max_len = max_len

    def embed(self, x, t):  # x [B, N, D], t [1 | B, N] in steps
        return x + ((t / self.max_len)[..., None] * self.weight).to(x.dtype)


# %%
# The task: which of two bumps came first?

X, y = make_order_task("order", 96, length=32, random_state=0)
X_test, y_test = make_order_task("order", 96, length=32, random_state=1)
classifier = TSTransformerClassifier(
    "ramp", stem="linear", d_model=16, n_layers=1, max_epochs=30, learning_rate=0.01, random_state=0
)
print(f"accuracy {classifier.fit(X, y).score(X_test, y_test):.2f}")

# %%
# The trained encoding:

figure = plot_encoding(classifier.model_.encoding.at(0), 32, d_model=16, name="ramp")
figure
