"""
From recordings to intervals, and a split that lies
===================================================

Real recordings: ten people with a smartwatch repeat seven shoulder exercises, 33 seconds each on
average. The acceleration is from the package seglearn (``load_watch``, BSD 3-Clause, Burns et al.,
`arXiv:1802.01489 <https://arxiv.org/abs/1802.01489>`_): its right arms, as means over 0.1 seconds,
in ``data/recordings/shoulder.csv.gz`` of a checkout.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_predict

from tsformer import RandomConvolutionClassifier
from tsformer.data import windows
from tsformer.plots import plot_recording

table = pd.read_csv(Path("../../../data/recordings/shoulder.csv.gz"))
recordings = {
    f"{person} {exercise}": rows.set_index("time")
    for (person, exercise), rows in table.groupby(["person", "exercise"])
}
cut = windows(recordings, "exercise", length=40, stride=20, groups="person")
print(cut, "of", len(set(cut.groups)), "people")

# %%
# The right split keeps a person together, the wrong one has neighbouring windows in train and test.

model = RandomConvolutionClassifier(n_features=336, n_groups=4, random_state=0)
splits = {
    "people apart": (GroupKFold(3), cut.groups),
    "neighbours in train and test": (StratifiedKFold(3, shuffle=True, random_state=0), None),
}
steps = {}
for name, (cv, groups) in splits.items():
    proba = cross_val_predict(model, cut.X, cut.y, groups=groups, cv=cv, method="predict_proba")
    steps[name] = cut.steps(proba)
    print(f"{name}: {cut.scores(steps[name])['accuracy']:.2f} of the steps are right")

# %%
# The recording that the wrong split flatters most, a person whom the model has not seen above.

right = pd.DataFrame(
    {name: predicted["label"] == predicted["true"] for name, predicted in steps.items()}
)
shares = right.groupby(steps["people apart"]["recording"]).mean()
name = (shares["neighbours in train and test"] - shares["people apart"]).idxmax()
figure, axes = plt.subplots(4, 1, figsize=(9, 7), sharex=True, layout="constrained")
for panels, (split, predicted) in zip((axes[:2], axes[2:]), steps.items(), strict=True):
    plot_recording(cut, predicted, name, axes=panels)
    panels[0].set_title(f"{split}: {shares.loc[name, split]:.0%} of recording {name!r} is right")
