"""
Fit, predict, and see which classes are confused
================================================

A classifier learns the train split of ArrowHead, outlines of projectile points of three kinds. The
confusion matrix of the test split shows its mistakes. The model is small and trained briefly; for
real work pass ``random_state`` alone.
"""

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.plots import plot_confusion

X, y = load_dataset("ArrowHead", split="train")
X_test, y_test = load_dataset("ArrowHead", split="test")
print(X.shape, X_test.shape)

# %%
# Series are arrays of shape (series, channels, steps); labels may have any type.

classifier = TSTransformerClassifier(d_model=16, n_layers=1, max_epochs=25, random_state=0)
classifier.fit(X, y)
print(f"accuracy {classifier.score(X_test, y_test):.3f}")

# %%
# Rows are true classes, columns predicted classes.

figure = plot_confusion(classifier, X_test, y_test)
figure
