"""
How many labels does it take?
=============================

Fit to parts of the train split, and see where more series stop helping. ``tsformer compare
--train-sizes 10%,20%,50%,100%`` does this for any methods, tracked and with a report. This page
uses few random convolutions, which take a second per fit.
"""

import pandas as pd
from sklearn.model_selection import StratifiedShuffleSplit

from tsformer import RandomConvolutionClassifier, load_dataset
from tsformer.plots import plot_learning_curves

X, y = load_dataset("OSULeaf", split="train")
X_test, y_test = load_dataset("OSULeaf", split="test")

rows = []
for size in (12, 25, 50):
    for seed, (index, _) in enumerate(
        StratifiedShuffleSplit(2, train_size=size, random_state=0).split(X, y)
    ):
        classifier = RandomConvolutionClassifier(n_features=336, n_groups=2, random_state=seed)
        accuracy = classifier.fit(X[index], y[index]).score(X_test, y_test)
        rows.append(("OSULeaf", "random convolutions", size, seed, accuracy))

columns = ["dataset", "method", "train_size", "seed", "accuracy"]
results = pd.DataFrame(rows, columns=columns)
print(results.groupby("train_size").accuracy.mean().round(3))

# %%
figure = plot_learning_curves(results)
figure
