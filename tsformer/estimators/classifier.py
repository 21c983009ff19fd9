"""TSTransformerClassifier: a scikit-learn classifier over the model and its training."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from tsformer.estimators.base import Targets, TransformerEstimator
from tsformer.estimators.parameters import ClassifierParameters
from tsformer.estimators.weights import series_weights

__all__ = ["TSTransformerClassifier"]


class TSTransformerClassifier(ClassifierParameters, ClassifierMixin, TransformerEstimator):
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
    timestamps : {None, "index"}, default=None
        "index": the time of each step is that of the pandas index of its series, numbers or
        dates. Encodings then see real time, from the first step of each series, in units of
        the median distance between two steps in training.
    max_epochs : int or "auto", default="auto"
        "auto" trains for 1000 optimizer steps and at least 20 epochs, so
        that small and large data both train well.
    batch_size : int or "auto", default="auto"
        Series in an optimizer step. "auto" is 16, and fewer for series of more than 2,048 tokens,
        32,768 tokens in all. Where a batch does not fit into memory it is cut, with a warning, and
        the step stays the same.
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
    n_estimators : int, default=1
        Number of models, members that differ only in their seed: initial weights, shuffling and
        dropout. Their probabilities are averaged. The first is the model of ``n_estimators=1``.
        They share `preprocessor_` and the part that `early_stopping` holds out, and each stops for
        itself. On a GPU members train as one; `callbacks`, `compile` and `checkpoint_dir`, which
        follow one training, make them train one after another, with a warning.
    n_jobs : int or None, default=1
        On a CPU, processes that train members side by side, each with its share of the threads;
        -1 is one a core. Other than 1 it allows neither `callbacks` nor `verbose`.
    callbacks : list of tsformer.training.Callback, optional
        Called around the epochs, of one member after another.
    warm_start : bool, default=False
        Whether another `fit` goes on from the weights of the last one.
    device : str or torch.device, default="auto"
        "auto": cuda where there is one, else mps, else cpu.
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        "auto": bf16 autocast on CUDA devices that have it, else float32.
    compile : bool or "cuda-graphs", default=False
        Train with `torch.compile`; or, on a GPU, with whole steps captured in CUDA graphs.
    checkpoint_dir : str or Path, optional
        Folder in which the state of a running training is kept, in a file that belongs to this
        training alone: to its data, parameters and seed.
    checkpoint_minutes : float, default=10.0
        Least time between two states that are kept.
    resume : bool, default=False
        Whether `fit` goes on from that state, where there is one, after it was killed. On a CPU it
        ends with the same weights, bit for bit.
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
        Epochs trained; of several members the most.
    history_ : tsformer.training.History
        Per epoch: loss, learning rate, seconds, and validation loss and score where there are;
        ``history_.to_frame()``. Of several members the mean, and the sum of seconds.
    model_ : TSTransformer
        The torch module; of several members the first.
    models_, histories_ : list
        Module and history of each member. After Ctrl-C there are only those that were trained.
    estimators_ : list of TSTransformerClassifier
        Each member as a fitted classifier of ``n_estimators=1``, which shares its module.
    device_ : torch.device
        Where the modules are.

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

    def decision_function(self, X: Any, times: Any = None) -> npt.NDArray[np.floating[Any]]:
        """Compute logits; of several members, the logarithms of their mean probabilities.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n, n_classes), or (n,) for two classes: the second logit less the first
        """
        logits = self._logits(X, times)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute the probability of each class, in the order of `classes_`.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n, n_classes) of float64, rows sum to 1
        """
        return self.predict_proba_members(X, times).mean(axis=0)

    def predict_proba_members(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute the probability of each class by each member.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n_estimators, n, n_classes) of float64
            In the order of `estimators_`; their mean is `predict_proba`.
        """
        return torch.from_numpy(self._outputs(X, times)).double().softmax(dim=-1).numpy()

    def predict(self, X: Any, times: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each series.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n,) of labels
        """
        best = self._logits(X, times).argmax(axis=1)
        return self.classes_[best]

    def _logits(self, X: Any, times: Any) -> npt.NDArray[np.floating[Any]]:
        outputs = self._outputs(X, times)
        if len(outputs) == 1:
            return outputs[0]
        # By logarithms throughout: a probability too small for a float has one.
        logs = torch.from_numpy(outputs).double().log_softmax(dim=-1)
        return (logs.logsumexp(dim=0) - log(len(outputs))).numpy()

    def score(
        self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None, *, times: Any = None
    ) -> float:
        """Compute the accuracy of `predict`.

        Parameters
        ----------
        X, times : as in `transform`
        y : array-like (n,)
            True labels.
        sample_weight : array-like (n,), optional
            Weight of each series.

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score  # late, as in scikit-learn: it loads a lot

        return float(accuracy_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _targets(self, y: Any, name: str, *, reset: bool) -> Targets:
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name=name)
        check_classification_targets(labels)
        if reset:
            self.classes_ = np.unique(labels)
        index = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        new = self.classes_[index] != labels
        if np.any(new):
            raise ValueError(
                f"{name} has labels that the training data lack: "
                f"{np.unique(labels[new]).tolist()[:10]}; "
                f"known are {self.classes_.tolist()[:20]}"
            )
        return index.astype(np.int64)

    def _weights(self, sample_weight: npt.ArrayLike | None, targets: Targets) -> Targets | None:
        return series_weights(sample_weight, self.class_weight, targets, self.classes_)

    def _describe_targets(self) -> dict[str, Any]:
        return {"classes": {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()}}

    def _restore_targets(self, described: dict[str, Any]) -> None:
        classes = described["classes"]
        self.classes_ = np.array(classes["values"], dtype=np.dtype(classes["dtype"]))

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _strata(self, targets: Targets) -> npt.NDArray[np.int64]:
        return targets

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(
            outputs, targets, reduction="none", label_smoothing=self.label_smoothing
        )

    def _val_score(self, outputs: Tensor, targets: Tensor) -> float:
        return (outputs.argmax(dim=1) == targets).float().mean().item()
