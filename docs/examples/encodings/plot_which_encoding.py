"""
Which encoding for my data
==========================

``which_encoding`` ranks encodings on your series within a time budget. All are fitted on the first
fold of a cross-validation; fold by fold, encodings that fall behind are dropped. Each fit is an
MLflow run, and the same call resumes. From the shell::

    tsformer compare --data my.csv --label y --encodings all --set stem=linear --budget 10min

The classes here differ in the order of their steps alone, so that ``none`` is at chance.
"""

import contextlib
import tempfile

from tsformer.data import make_order_task
from tsformer.studies import plot_ranking, which_encoding

X, y = make_order_task("direction", 90, length=16, noise=1.0, random_state=0)
small = {"stem": "linear", "d_model": 16, "n_heads": 2, "n_layers": 1, "max_epochs": 10}
with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
    comparison = which_encoding(
        X,
        y,
        encodings=["none", "fixed", "rope"],
        n_folds=3,
        parameters=small,
        budget="5min",
        tracking_uri=f"sqlite:///{folder}/mlflow.db",
    )

columns = ["encoding", "folds", "accuracy", "behind", "outcome"]
print(comparison.ranking[columns].round(3).to_string(index=False))
print(comparison.answer())

# %%
# A dot is the mean difference from the leader on the same folds; a line is its 95 % interval, from
# three folds on. Dropped encodings are hollow.

figure = plot_ranking(comparison.ranking)
figure
