"""
Several labels for each series
==============================

A recording may show several events, or none: `y` of shape ``(n, n_labels)`` has a column of 0
and 1 for each label. One model predicts all labels, and ``predict_proba`` returns the probability
of each. Here a recording has one or two of three outlines of arrowheads, one after the other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import f1_score

from tsformer import RandomConvolutionClassifier, load_dataset


def recordings(split, n, seed):
    """Join halves of two outlines; half of the pairs are two halves of the same outline."""
    X, y = load_dataset("ArrowHead", split=split)
    rng = np.random.default_rng(seed)
    first, second = rng.integers(len(X), size=(2, n))
    second = np.where(np.arange(n) % 2, first, second)
    labels = np.stack([(y[first] == name) | (y[second] == name) for name in names], axis=1)
    return np.concatenate([X[first, :, ::2], X[second, :, 1::2]], axis=2), labels.astype(int)


names = np.unique(load_dataset("ArrowHead", split="train")[1])
X, y = recordings("train", 200, seed=0)
X_test, y_test = recordings("test", 100, seed=1)

classifier = RandomConvolutionClassifier(n_features=2016, n_groups=8, random_state=0).fit(X, y)
predicted, proba = classifier.predict(X_test), classifier.predict_proba(X_test)
frequent = (y.mean(axis=0) > 0.5).astype(int)
f1 = f1_score(y_test, predicted, average="macro")
print(f"labels right {(predicted == y_test).mean():.2f}, F1 {f1:.2f}")
print(f"the more frequent value of each label is right in {(frequent == y_test).mean():.2f}")
print(f"all labels of a series right {classifier.score(X_test, y_test):.2f}")

# %%
# Four recordings, and the probability of each label. The dashed line is the decision at 0.5.

figure, axes = plt.subplots(4, 2, figsize=(9, 6.5), width_ratios=[2, 1], layout="constrained")
shown = [*np.flatnonzero(y_test.sum(axis=1) == 2)[:3], 1]
for row, (signal, bars) in zip(shown, axes, strict=True):
    signal.plot(X_test[row, 0], lw=1, color="0.3")
    signal.set(ylabel=f"recording {row}", yticks=[])
    colors = np.where(y_test[row] == 1, "#0072B2", "#BBBBBB")
    bars.barh([f"class {name}" for name in names], proba[row], color=colors)
    bars.axvline(0.5, ls="--", color="0.5")
    bars.set(xlim=(0, 1))
axes[0, 0].set_title("values")
axes[0, 1].set_title("probability (blue: present)")
axes[-1, 0].set_xlabel("step")
plt.show()
