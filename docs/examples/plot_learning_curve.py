"""
How many labels does it take?
=============================

Fit to parts of the train split, and see where more series stop helping. scikit-learn draws the
curve of any estimator, here of few random convolutions, which take a second per fit.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import LearningCurveDisplay, StratifiedShuffleSplit

from tsformer import RandomConvolutionClassifier, load_dataset

X, y = load_dataset("OSULeaf", split="train")
classifier = RandomConvolutionClassifier(n_features=336, n_groups=2, random_state=0)
splits = StratifiedShuffleSplit(2, test_size=100, random_state=0)

figure, ax = plt.subplots()
curve = LearningCurveDisplay.from_estimator(
    classifier, X, y, train_sizes=[25, 50, 100], cv=splits, score_type="test", ax=ax
)
print(curve.train_sizes, curve.test_scores.mean(axis=1).round(3))

# %%
figure
