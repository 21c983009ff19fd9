"""
Can its confidence be trusted?
==============================

Bars on the diagonal belong to a calibrated classifier. ``calibrate`` fits the temperature, which
divides the logits, to held-out series. It changes no predicted class of a single model.
"""

from sklearn.model_selection import train_test_split

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.metrics import expected_calibration_error
from tsformer.plots import plot_reliability

X, y = load_dataset("OSULeaf", split="train+test")
X, X_test, y, y_test = train_test_split(X, y, train_size=150, stratify=y, random_state=0)
X_held, X_test, y_held, y_test = train_test_split(
    X_test, y_test, train_size=100, stratify=y_test, random_state=0
)

classifier = TSTransformerClassifier(
    d_model=16, n_layers=1, max_epochs=10, temperature=1.0, random_state=0
).fit(X, y)
probabilities = classifier.predict_proba(X_test)
error = expected_calibration_error(y_test, probabilities, classifier.classes_)
before = plot_reliability(y_test, probabilities, classifier.classes_)
print(f"calibration error {error:.3f}")
before

# %%
# After calibration:

classifier.calibrate(X_held, y_held)
probabilities = classifier.predict_proba(X_test)
error = expected_calibration_error(y_test, probabilities, classifier.classes_)
print(f"temperature {classifier.temperatures_[0]:.2f}, calibration error {error:.3f}")
after = plot_reliability(y_test, probabilities, classifier.classes_)
after
