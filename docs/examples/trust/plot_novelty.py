"""
Series unlike the training data
===============================

A classifier has an answer for every series, also for a broken sensor. ``novelty_score`` says
whether a series is like the training series: above 1, it is not. One ordinary series in a hundred
has a higher score. It looks at the shape, and at statistics such as level, deviation and unchanged
steps.
"""

import matplotlib.pyplot as plt
import numpy as np

from tsformer import RandomConvolutionClassifier, load_dataset

X, y = load_dataset("OSULeaf", split="train")
X_test, _ = load_dataset("OSULeaf", split="test")
classifier = RandomConvolutionClassifier(n_features=336, n_groups=2, random_state=0).fit(X, y)

rng = np.random.default_rng(0)
spiked = X_test.copy()
spiked[np.arange(len(spiked)), :, rng.integers(X.shape[2], size=len(spiked))] += 5 * X.std()
stuck = X_test.copy()
stuck[..., 213:] = stuck[..., 213:214]
series = {
    "ordinary": X_test,
    "other unit": 1000 * X_test,
    "offset": X_test + 3 * X.std(),
    "stuck from half": stuck,
    "one spike": spiked,
    "noise": X_test + 0.5 * X.std() * rng.normal(size=X_test.shape),
    "reversed": X_test[..., ::-1],
}

# %%
# On the left the grey lines are zero; values in another unit would not fit.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.5), layout="constrained", sharey=True)
for row, (name, some) in enumerate(series.items()):
    if name != "other unit":
        left.axhline(row, color="0.8", lw=0.8)
        left.plot(row - some[0, 0] / 8, color=f"C{row}")
    scores = classifier.novelty_score(some)
    right.plot(scores, row + rng.uniform(-0.25, 0.25, len(scores)), ".", ms=3, color=f"C{row}")
    share = f"{(scores > 1).mean():.0%}"
    right.text(1.02, row, share, transform=right.get_yaxis_transform(), va="center")
right.axvline(1, color="0.4", lw=1)
right.set(xscale="log", xlabel="novelty score", title="242 series each, and their share above 1")
right.set_xticks([1, 10, 100], ["1", "10", "100"])
right.minorticks_off()
left.set_yticks(range(len(series)), series)
left.invert_yaxis()
left.set(xlabel="step", title="One series of each kind")
