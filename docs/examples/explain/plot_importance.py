"""
Which channels and windows a score rests on
===========================================

``permutation_importance`` exchanges one channel, or one window of time, between series and returns
the fall of the score. It needs no gradient, and works for every classifier of the package. Here the
class is in the first of three channels, at a random place.
"""

import matplotlib.pyplot as plt

from tsformer import RandomConvolutionClassifier
from tsformer.data import make_window_task
from tsformer.inspection import permutation_importance

X, y, _ = make_window_task(200, random_state=0)
classifier = RandomConvolutionClassifier(n_features=336, n_groups=2, random_state=0).fit(
    X[:120], y[:120]
)
X_test, y_test = X[120:], y[120:]

channels = permutation_importance(classifier, X_test, y_test, random_state=0)
windows = permutation_importance(
    classifier, X_test, y_test, by="window", n_windows=8, random_state=0
)

# %%
# Bars are standard deviations over permutations. No single window decides, since the sine moves.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
left.bar(["0", "1", "2"], channels.importances_mean, yerr=channels.importances_std)
left.set(xlabel="channel", ylabel="accuracy lost")
middles = (windows.edges[:-1] + windows.edges[1:]) / 2
right.bar(middles, windows.importances_mean, width=0.1, yerr=windows.importances_std)
right.set(xlabel="place of the window, as a fraction of the series")
