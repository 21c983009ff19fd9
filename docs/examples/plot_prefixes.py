"""
Before the series has ended
===========================

A model predicts series shorter than any in training, so it can predict before a series has ended.
The probabilities are of outlines of ArrowHead cut to their first part; training used whole
outlines.
"""

import matplotlib.pyplot as plt
import numpy as np

from tsformer import TSTransformerClassifier, load_dataset

X, y = load_dataset("ArrowHead", split="train")
X_test, y_test = load_dataset("ArrowHead", split="test")
classifier = TSTransformerClassifier(d_model=16, n_layers=1, max_epochs=40, random_state=0)
classifier.fit(X, y)

lengths = np.linspace(50, X.shape[2], 8).astype(int)
case = X_test[0]
probabilities = classifier.predict_proba([case[:, :length] for length in lengths])

# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, layout="constrained")
above.plot(case[0], color="0.4")
above.set(ylabel="value", title=f"an outline of class {y_test[0]}")
for label, column in zip(classifier.classes_, probabilities.T, strict=True):
    below.plot(lengths, column, "o-", label=f"class {label}")
below.set(xlabel="steps that are shown", ylabel="probability", ylim=(0, 1))
below.legend()
