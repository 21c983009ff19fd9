"""
Compare encodings in a tracked study
====================================

A study fits data sets × encodings × seeds. Under one seed every encoding starts from the same
weights and sees the same batches. Each fit is an MLflow run, and an interrupted study resumes. From
the shell, with a report::

    tsformer compare --datasets ArrowHead,OSULeaf --encodings none,lspe,tape+erpe --seeds 3

One data set, two seeds and a small model make this page quick and say nothing about encodings;
:doc:`/results/encodings` does.
"""

import tempfile

from tsformer.studies import Study, compare, plot_comparison

study = Study(
    ["ArrowHead"],
    ["none", "lspe"],
    seeds=2,
    parameters={"d_model": 16, "n_layers": 1, "max_epochs": 5},
)
with tempfile.TemporaryDirectory() as folder:
    comparison = compare(study, out=folder, tracking_uri=f"sqlite:///{folder}/mlflow.db")

columns = ["dataset", "encoding", "seed", "accuracy"]
print(comparison.results[columns].round(3).to_string(index=False))

# %%
# A dot is a fit.

figure = plot_comparison(comparison.results)
figure
