"""
Fit, predict, and see what is confused
======================================

A classifier is fitted to the train split of ArrowHead, outlines of projectile points of three
kinds, and the confusion matrix shows which kinds of the test split it takes for which. The model
is small and trained briefly, so that this page is built in seconds; leave out all parameters but
``random_state`` for real work.
"""

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.plots import plot_confusion

X, y = load_dataset("ArrowHead", split="train")
X_test, y_test = load_dataset("ArrowHead", split="test")
print(X.shape, X_test.shape)

# %%
# Series are arrays of shape (series, channels, steps); labels are anything scikit-learn accepts.

classifier = TSTransformerClassifier(d_model=16, n_layers=1, max_epochs=40, random_state=0)
classifier.fit(X, y)
print(f"accuracy {classifier.score(X_test, y_test):.3f}")

# %%
# Rows are the true classes, columns the predicted ones.

figure = plot_confusion(classifier, X_test, y_test)
figure
