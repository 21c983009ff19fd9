"""
Watch it learn
==============

With validation data, each epoch has a validation loss and score. They switch on early stopping,
which keeps the weights of the best epoch. ``history_`` holds the rows.
"""

from sklearn.model_selection import train_test_split

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.plots import plot_history

X, y = load_dataset("OSULeaf", split="train")
X, X_val, y, y_val = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

classifier = TSTransformerClassifier(d_model=16, n_layers=1, max_epochs=12, random_state=0)
classifier.fit(X, y, X_val=X_val, y_val=y_val)
print(classifier.history_.to_frame().drop(columns="seconds").tail(3).round(4))

# %%
# The dashed line is the epoch of the lowest validation loss; its weights are kept.

figure = plot_history(classifier)
figure
