"""TSTransformerClassifier: a scikit-learn classifier over the model and its training."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d
from torch import Tensor

from tsformer.estimators.base import Series, TransformerEstimator
from tsformer.estimators.holdout import hold_out
from tsformer.estimators.weights import series_weights

__all__ = ["TSTransformerClassifier"]


class TSTransformerClassifier(ClassifierMixin, TransformerEstimator):
    """Classify time series with a transformer and a positional encoding chosen by name.

    A stem turns values into tokens, the encoding tells where in time they are, transformer blocks
    relate them, and the mean over the tokens goes to a linear head. Series of unequal length are
    masked throughout.

    Parameters
    ----------
    encoding : str, PositionalEncoding subclass or factory, default="lspe"
        A name of ``tsformer.encodings.names()``, a sum such as ``"tape+erpe"``, or your own.
    encoding_params : dict, optional
        Options of the encoding, as in ``{"d_hidden": 32}``.
    stem : {"conv", "linear", "patch", "embedding"}, default="conv"
        "conv": two layers of dilated convolutions, strided to about 64 tokens; "linear": a token
        a step, order left to the encoding alone; "patch": a token for several consecutive steps;
        "embedding": a token a step for symbolic series, one channel of whole numbers that are
        codes. `predict` reads codes that `fit` did not see as one unknown code, with a warning.
    stem_params : dict, optional
        Options of the stem, as in ``{"kernel_size": 5}``.
    d_model, n_heads, n_layers : int, default=64, 4, 2
        Width, attention heads (they divide the width) and blocks.
    d_ff : int, optional
        Hidden width of the feed-forward networks; twice `d_model` by default.
    dropout : float in [0, 1), default=0.1
        On the encoded tokens and the residual branches.
    norm_first : bool, default=True
        Pre-norm blocks; False for post-norm, as in the original transformer.
    pooling : {"mean", "attention", "max"}, default="mean"
        From tokens to one vector.
    scaling : {"channel", "series", None}, default="channel"
        "channel": each channel by its mean and deviation over the training data; "series": each
        channel of each series by its own; None: values are taken as they are. Codes are
        never scaled.
    max_epochs : int or "auto", default="auto"
        "auto" trains for 1000 optimizer steps and at least 20 epochs, so
        that small and large data both train well.
    batch_size : int, default=16
        Series in an optimizer step.
    learning_rate : float, default=0.002
        Of AdamW at its peak; it rises over a tenth of the steps and falls to zero along a cosine.
    weight_decay : float, default=0.05
        On matrices only, not on position tables and norms.
    label_smoothing : float in [0, 1), default=0.1
        Part of the target spread evenly over the classes.
    class_weight : dict, "balanced" or None, default=None
        As in scikit-learn.
    early_stopping : bool or "auto", default="auto"
        Hold out a part of the data, stop when its loss no longer falls and return to the best
        epoch. "auto": where `X_val` is given, or from 5000 series on; on
        small data all series train and the schedule ends at zero.
    validation_fraction : float in (0, 1), default=0.1
        The part held out, of each class alike.
    n_iter_no_change : int, default=20
        Epochs without a lower validation loss before stopping.
    callbacks : list of tsformer.training.Callback, optional
        Called around the epochs.
    warm_start : bool, default=False
        Whether another `fit` goes on from the weights of the last one.
    device : str or torch.device, default="auto"
        "auto": cuda where there is one, else mps, else cpu.
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        "auto": bf16 autocast on CUDA devices that have it, else float32.
    compile : bool, default=False
        Train with `torch.compile`.
    random_state : int, RandomState or None, default=None
        The one seed of initial weights, shuffling, dropout and the validation split. The same int
        gives the same predictions on the same machine, bit for bit; global generators are left
        alone.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The labels.
    n_features_in_ : int
        Columns of a 2-D `X` (its time steps), channels of any other.
    n_channels_ : int
        Channels of a series.
    n_iter_ : int
        Epochs trained.
    history_ : tsformer.training.History
        Per epoch: loss, learning rate, seconds, and validation loss and score where there are;
        ``history_.to_frame()``.
    model_ : TSTransformer
        The torch module.
    device_ : torch.device
        Where it is.

    Notes
    -----
    The recipe (encoding, the stem's norm, batch size, learning rate, budget) was chosen by
    three-fold cross-validation on train splits. ``experiments/choose_recipe.py`` is that
    comparison; what it gave, and how far to trust it, is in ``experiments/results``.

    Examples
    --------
    >>> from tsformer import TSTransformerClassifier, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> clf = TSTransformerClassifier(encoding="lspe", max_epochs=5, random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:3]).shape
    (3, 2)
    """

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Train on all of `X`, or on all but the part that `early_stopping` holds out.

        Parameters
        ----------
        X : ndarray (n, length) or (n, channels, length), or list of (channels, length) arrays
            Series; those of a list may differ in length.
        y : array-like (n,)
            Labels of any type that scikit-learn allows.
        sample_weight : array-like (n,), optional
            Weight of each series, on top of `class_weight`; only their ratios matter.
        X_val, y_val : optional
            Validation data like `X` and `y`: they are scored after each epoch and, unless
            ``early_stopping=False``, stop the training. They never train it.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For arguments that are not allowed; nothing is trained then.
        tsformer.training.Diverged
            If the loss is no longer finite. The estimator is fitted then, with the weights of
            the last good epoch.
        """
        self._check_parameters()
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        continues = self._continues()
        series = self._read(X, reset=not continues)
        labels = _labels(y)
        check_consistent_length(series[0], labels)
        if not continues:
            self.classes_ = np.unique(labels)
        targets = self._encode(labels, "y")
        weights = series_weights(sample_weight, self.class_weight, targets, self.classes_)
        seeds = self._seeds()
        validation = self._given_validation(X_val, y_val)
        if validation is None and self._stops_early(len(labels), given=False):
            held_out = hold_out(targets, self.validation_fraction, seeds[2])
            validation = _select(series, held_out), targets[held_out]
            series, targets = _select(series, ~held_out), targets[~held_out]
            weights = None if weights is None else weights[~held_out]
        self._train(
            series,
            torch.from_numpy(targets),
            self._loss,
            n_outputs=len(self.classes_),
            seeds=seeds,
            # Once over the data set: per batch it would undo class weights.
            weights=None if weights is None else torch.from_numpy(weights / weights.mean()).float(),
            validation=None
            if validation is None
            else (validation[0], torch.from_numpy(validation[1]), _accuracy),
        )
        return self

    def decision_function(self, X: Any) -> npt.NDArray[np.floating[Any]]:
        """Compute logits.

        Parameters
        ----------
        X : as in `transform`

        Returns
        -------
        ndarray (n, n_classes), or (n,) for two classes: the second logit less the first
        """
        logits = self._outputs(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Compute the probability of each class, in the order of `classes_`.

        Parameters
        ----------
        X : as in `transform`

        Returns
        -------
        ndarray (n, n_classes) of float64, rows sum to 1
        """
        return torch.from_numpy(self._outputs(X)).double().softmax(dim=1).numpy()

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class of each series.

        Parameters
        ----------
        X : as in `transform`

        Returns
        -------
        ndarray (n,) of labels
        """
        best = self._outputs(X).argmax(axis=1)
        return self.classes_[best]

    def _loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(
            logits, targets, reduction="none", label_smoothing=self.label_smoothing
        )

    def _encode(self, labels: npt.NDArray[Any], name: str) -> npt.NDArray[np.int64]:
        """Return the index in `classes_` of each label."""
        index = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        new = self.classes_[index] != labels
        if np.any(new):
            raise ValueError(
                f"{name} has labels that the training data lack: "
                f"{np.unique(labels[new]).tolist()[:10]}; "
                f"known are {self.classes_.tolist()[:20]}"
            )
        return index.astype(np.int64)

    def _given_validation(
        self, X_val: Any, y_val: Any
    ) -> tuple[Series, npt.NDArray[np.int64]] | None:
        if (X_val is None) != (y_val is None):
            raise ValueError(
                f"X_val and y_val go together; {'y_val' if y_val is None else 'X_val'} is missing"
            )
        if X_val is None:
            return None
        series = self._read(X_val, reset=False)
        labels = _labels(y_val)
        check_consistent_length(series[0], labels)
        return series, self._encode(labels, "y_val")


def _labels(y: Any) -> npt.NDArray[Any]:
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def _accuracy(logits: Tensor, targets: Tensor) -> float:
    return (logits.argmax(dim=1) == targets).float().mean().item()


def _select(series: Series, chosen: npt.NDArray[np.bool_]) -> Series:
    values, lengths = series
    return values[chosen], lengths[chosen]
