"""The contracts of scikit-learn, sktime and aeon. No training loop, no model."""

from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.regressor import TSTransformerRegressor

__all__ = ["TSTransformerClassifier", "TSTransformerRegressor"]
