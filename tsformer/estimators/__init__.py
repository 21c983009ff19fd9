"""The contracts of scikit-learn, sktime and aeon. No training loop, no model."""

from tsformer.estimators.classifier import TSTransformerClassifier

__all__ = ["TSTransformerClassifier"]
