"""
Before the series has ended
===========================

``EarlyClassifier`` is trained on prefixes, so that it answers at every length, and waits until it
is sure. Each rule is a trade-off: the more of a series it sees, the more accurate it is.
"""

import matplotlib.pyplot as plt

from tsformer import EarlyClassifier, RandomConvolutionClassifier, load_dataset

X, y = load_dataset("ArrowHead", split="train")
X_test, y_test = load_dataset("ArrowHead", split="test")
convolutions = RandomConvolutionClassifier(n_features=1008, n_groups=4, random_state=0)
early = EarlyClassifier(convolutions, earliness=0.5, random_state=0).fit(X, y)

labels, n_steps = early.predict_early(X_test)
print(f"seen {n_steps.mean() / X.shape[2]:.0%}, accuracy {(labels == y_test).mean():.2f}")
print(f"complete series, accuracy {early.score(X_test, y_test):.2f}")

# %%
# All rules on the test series, and the rule that was chosen with held-out training series.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for n_agreeing, rules in early.trade_offs(X_test, y_test).groupby("n_agreeing"):
    left.plot(rules.earliness, rules.accuracy, label=f"agreeing answers: {n_agreeing}")
chosen = n_steps.mean() / X.shape[2], (labels == y_test).mean()
left.plot(*chosen, "o", color="k", label="chosen rule")
left.set(xlabel="mean share of the series that is seen", ylabel="accuracy", xlim=(0, 1))
left.legend(frameon=False)

# One outline that arrives: the probability of each class at every point.
case = int(n_steps.argsort()[len(n_steps) // 2])
proba = early.predict_proba([X_test[case][:, :n] for n in early.steps_])
for label, column in zip(early.classes_, proba.T, strict=True):
    right.plot(early.steps_, column, "o-", label=f"class {label}")
right.axvline(n_steps[case], color="0.6", ls="--", label=f"answer: class {labels[case]}")
right.set(title=f"an outline of class {y_test[case]}", ylim=(0, 1))
right.set(xlabel="steps that have arrived", ylabel="probability")
right.legend(frameon=False)
