"""
Use series without labels
=========================

``TSTransformerEncoder`` learns without labels, here by matching two random views of each series.
Its features, a vector per series, suit any estimator of scikit-learn.
``TSTransformerClassifier(init_from=encoder)`` starts from its weights (:doc:`/guide/few_labels`).
"""

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from tsformer import TSTransformerEncoder, load_dataset

X, y = load_dataset("ArrowHead", split="train+test")
encoder = TSTransformerEncoder(
    objective="contrastive", d_model=16, n_layers=1, max_epochs=4, random_state=0
)
vectors = encoder.fit(X).transform(X)  # no labels
print(vectors.shape)

# %%
# Labels are only used to colour the dots.

plane = PCA(2).fit_transform(vectors)
figure, ax = plt.subplots(layout="constrained")
for label in sorted(set(y)):
    ax.scatter(*plane[y == label].T, s=18, label=f"class {label}")
ax.set(xlabel="first principal component", ylabel="second")
ax.legend()
