"""
Gaps
====

Missing values are NaN. Gaps are interpolated, and if the training series had gaps, one more channel
flags them. Steps before the first value and after the last are masked. Here the same classifier
predicts while more and more values of each test series are removed.
"""

import matplotlib.pyplot as plt
import numpy as np

from tsformer import TSTransformerClassifier, load_dataset

X, y = load_dataset("ArrowHead", split="train")
X_test, y_test = load_dataset("ArrowHead", split="test")
rng = np.random.default_rng(0)


def with_gaps(X, share):
    """Return a copy with a share of the values missing."""
    return np.where(rng.random(X.shape) < share, np.nan, X)


classifier = TSTransformerClassifier(d_model=16, n_layers=1, max_epochs=25, random_state=0)
classifier.fit(with_gaps(X, 0.3), y)

shares = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9]
accuracy = [classifier.score(with_gaps(X_test, share), y_test) for share in shares]

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(with_gaps(X_test[0, 0], 0.6), "o", markersize=3, label="60 % missing")
left.plot(X_test[0, 0], color="0.6", zorder=0, label="whole")
left.set(xlabel="step")
left.legend()
right.plot(shares, accuracy, "o-")
right.set(xlabel="share of missing values", ylabel="accuracy", ylim=(0, 1))
