"""
Sets that contain the class
===========================

``predict_set(X, coverage=0.9)`` returns, for each series, the classes it may have: the true class
is among them for 90 % of the series, whatever the classifier. An accurate classifier has small
sets. ``calibrate_sets`` needs series that the classifier was not trained on.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from tsformer import RandomConvolutionClassifier, load_dataset

X, y = load_dataset("OSULeaf", split="train")
X_test, y_test = load_dataset("OSULeaf", split="test")
X_held, X_new, y_held, y_new = train_test_split(X_test, y_test, test_size=0.5, random_state=0)

coverages = np.linspace(0.5, 0.95, 4)
covered, size = {}, {}
for n_train in (200, 50, 18):
    classifier = RandomConvolutionClassifier(n_features=336, n_groups=2, random_state=0)
    index = np.argsort(np.arange(len(y)) % (len(y) // n_train), kind="stable")[:n_train]
    classifier.fit(X[index], y[index]).calibrate_sets(X_held, y_held)
    true_class = np.arange(len(y_new)), np.searchsorted(classifier.classes_, y_new)
    label = f"{n_train} series, accuracy {classifier.score(X_new, y_new):.2f}"
    sets = [classifier.predict_set(X_new, coverage=coverage) for coverage in coverages]
    covered[label] = [members[true_class].mean() for members in sets]
    size[label] = [members.sum(axis=1).mean() for members in sets]

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.plot([0.5, 1], [0.5, 1], "--", color="0.5")
for label in covered:
    left.plot(coverages, covered[label], "o-")
    right.plot(coverages, size[label], "o-", label=label)
left.set(xlabel="coverage that was passed", ylabel="share of sets with the true class")
right.set(xlabel="coverage that was passed", ylabel="mean number of classes in a set")
right.legend(frameon=False)

# %%
# To reject: act on sets of one class, and pass on series with several classes or with none.

sets = classifier.predict_set(X_new, coverage=0.95)
n_classes = sets.sum(axis=1)
right_alone = (classifier.predict(X_new) == y_new)[n_classes == 1].mean()
print(f"one class {np.mean(n_classes == 1):.0%}, several {np.mean(n_classes > 1):.0%}")
print(f"accuracy of the sets with one class {right_alone:.3f}")
