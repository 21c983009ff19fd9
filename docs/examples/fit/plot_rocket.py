"""
Compare with random convolutions
================================

``RandomConvolutionClassifier`` computes the untrained features of MiniRocket and Hydra, and fits a
ridge classifier in seconds. Prefer a transformer only if it is more accurate. ROCKET and others
come with :doc:`/guide/comparing`::

    tsformer compare --data my.csv --case id --time t --label y --methods tsformer,rocket,minirocket

The transformers here are trained too briefly to judge them.
"""

from time import perf_counter

import matplotlib.pyplot as plt

from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset

X, y = load_dataset("ArrowHead", split="train")
X_test, y_test = load_dataset("ArrowHead", split="test")

small = {"d_model": 16, "n_layers": 1, "random_state": 0}
classifiers = {
    "random convolutions": RandomConvolutionClassifier(random_state=0),
    "transformer, 5 epochs": TSTransformerClassifier(max_epochs=5, **small),
    "transformer, 30 epochs": TSTransformerClassifier(max_epochs=30, **small),
}

figure, ax = plt.subplots(layout="constrained")
for name, classifier in classifiers.items():
    begun = perf_counter()
    classifier.fit(X, y)
    seconds = perf_counter() - begun
    ax.scatter(seconds, classifier.score(X_test, y_test), s=90, label=name)
ax.set(xlabel="seconds of fit", ylabel="accuracy", title="ArrowHead", ylim=(0, 1))
ax.set_xlim(left=0)
ax.legend(loc="lower right")
