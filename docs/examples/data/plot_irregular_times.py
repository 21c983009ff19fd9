"""
Irregular times
===============

``times=`` passes the time of each step, and encodings use real time in place of step numbers. A
bump comes at time 35 in one class and at 55 in the other. Each series is observed at other times,
so the step number of the bump says little.
"""

import matplotlib.pyplot as plt
import numpy as np

from tsformer import TSTransformerClassifier

rng = np.random.default_rng(0)
n, length = 180, 40
y = np.arange(n) % 2
dense_where = rng.uniform(0.3, 3.0, size=(n, 1))  # early in some series, late in others
times = 100 * np.sort(rng.uniform(size=(n, length)), axis=1) ** dense_where
bump = np.exp(-(((times - np.where(y == 0, 35, 55)[:, None]) / 8) ** 2))
X = (bump + rng.normal(0, 0.1, size=(n, length)))[:, None, :]

small = {"d_model": 16, "n_layers": 1, "max_epochs": 10, "learning_rate": 0.01, "random_state": 0}
with_times = TSTransformerClassifier("fixed", **small)
with_times.fit(X[:100], y[:100], times=times[:100])
without = TSTransformerClassifier("fixed", **small).fit(X[:100], y[:100])
scores = {
    "with times": with_times.score(X[100:], y[100:], times=times[100:]),
    "without": without.score(X[100:], y[100:]),
}

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for case, color in ((0, "#0072B2"), (3, "#D55E00")):
    left.plot(times[case], X[case, 0], "o-", color=color, label=f"class {y[case]}")
left.set(xlabel="time", ylabel="value")
left.legend()
right.bar(list(scores), list(scores.values()))
right.axhline(0.5, color="0.4", linestyle="--")
right.set(ylabel="accuracy on new series", ylim=(0, 1))
