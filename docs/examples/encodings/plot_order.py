"""
Which encodings can tell order
==============================

Without a positional encoding, attention sees a set of tokens. Behind the linear stem, with a token
per step, the order of steps is then lost. The classes here differ in order alone: one rises, the
other falls. A symmetric encoding such as ``alibi`` knows distances, and cannot tell a series from
its reverse.
"""

import matplotlib.pyplot as plt

from tsformer import TSTransformerClassifier
from tsformer.data import make_order_task
from tsformer.plots import encoding_color

X, y = make_order_task("direction", 96, length=24, random_state=0)
X_test, y_test = make_order_task("direction", 64, length=24, random_state=1)

names = ("none", "alibi", "fixed", "rope", "erpe")
accuracy = {}
for name in names:
    classifier = TSTransformerClassifier(
        name, stem="linear", d_model=16, n_layers=1, max_epochs=15, random_state=0
    )
    accuracy[name] = classifier.fit(X, y).score(X_test, y_test)

# %%
# Chance is one half.

figure, ax = plt.subplots(layout="constrained")
ax.bar(names, accuracy.values(), color=[encoding_color(name) for name in names])
ax.axhline(0.5, color="0.4", linestyle="--", label="chance")
ax.set(ylabel="accuracy on new series", ylim=(0, 1))
ax.legend(loc="lower right")
