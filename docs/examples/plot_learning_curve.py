"""
How many labels does it take?
=============================

Fit to parts of the train split, and see where more series stop helping. scikit-learn draws the
curve of any estimator, here of few random convolutions, which take a second per fit.
"""

from sklearn.model_selection import LearningCurveDisplay, StratifiedShuffleSplit

from tsformer import RandomConvolutionClassifier, load_dataset

X, y = load_dataset("OSULeaf", split="train")
classifier = RandomConvolutionClassifier(n_features=336, n_groups=2, random_state=0)

display = LearningCurveDisplay.from_estimator(
    classifier,
    X,
    y,
    train_sizes=[25, 50, 100],
    cv=StratifiedShuffleSplit(2, test_size=100, random_state=0),
    score_type="test",
)
print(display.train_sizes, display.test_scores.mean(axis=1).round(3))

# %%
figure = display.figure_
figure
