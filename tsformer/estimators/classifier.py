"""TSTransformerClassifier: the transformer as a scikit-learn classifier."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import exp, log
from numbers import Integral
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tsformer._checks import Positive, check_number, read_fields, real, with_parameters
from tsformer._precision import in_plain_torch
from tsformer._random import imported
from tsformer._warnings import warn_caller
from tsformer.data.layout import check_ids
from tsformer.estimators import classification
from tsformer.estimators.base import TransformerEstimator
from tsformer.estimators.classification import refuse_several
from tsformer.estimators.groups import first_equal, merge_copies, read_groups
from tsformer.estimators.series_estimator import TrainingData, unobserved
from tsformer.estimators.settings import CONV_PARAMS
from tsformer.estimators.targets import LabelTarget, read_weights
from tsformer.explain.attention import AttentionMaps, attention_maps
from tsformer.training.training_run import suppress_interruption_warning

#: Bounds of the factor of temperatures in `calibrate`.
_FACTORS = (0.05, 20.0)


@with_parameters
class TSTransformerClassifier(ClassifierMixin, TransformerEstimator):
    """Time-series classifier: a transformer with a positional encoding chosen by name.

    A stem makes tokens of a series, a positional encoding adds their position in time, transformer
    blocks relate them, and a linear head maps their mean to class logits. Padding and missing steps
    are masked: series may differ in length and have gaps.

    Parameters
    ----------
    encoding : str, PositionalEncoding subclass or factory, default="lspe"
        A name from ``tsformer.encodings.names()``, a sum such as ``"tape+erpe"``, or your own.
    encoding_params : dict, optional
        Options of the encoding, such as ``{"d_hidden": 32}``.
    stem : {"conv", "linear", "patch", "embedding"}, default="conv"
        Tokens: "conv" makes about 64 by dilated convolutions and a residual layer [2]_, "linear"
        one per step, "patch" one for several steps, "embedding" one per step of a single channel of
        integer codes, where codes absent from training are one unknown code, with a warning.
    stem_params : dict, optional
        Options of the stem, such as ``{"kernel_size": 5}``; of "conv" also ``{"n_residual": 0}``
        and ``{"downsampling": "stride"}``, which skips steps of long series and pools none.
    d_model, n_heads, n_layers : int, default=64, 4, 2
        Width, number of attention heads, which must divide the width, and number of blocks.
    d_ff : int, optional
        Hidden width of the feed-forward networks; twice `d_model` by default.
    dropout : float in [0, 1), default=0.1
        Dropout probability for the encoded tokens and the residual branches.
    norm_first : bool, default=True
        Pre-norm blocks; False gives post-norm blocks, as in the original transformer.
    pooling : {"mean", "attention", "max"}, default="mean"
        How the tokens of a series are pooled into one vector.
    head_norm : {"batch", "layer", None}, default="batch"
        Norm of the pooled vector before the head, over the series [3]_ or over the features [4]_.
    scaling : {"auto", "channel", "series", "series+size", None}, default="auto"
        Standardisation of each channel: over the training series, or within each series;
        "series+size" adds its mean and log deviation as channels. "auto" is "series+size" if
        "channel" would leave most series with a deviation below a tenth, else the better of
        "channel" and "series" by a ridge classifier on random convolutions; with `init_from` the
        source's; for other stems than "conv" "channel".
    views : str, default="auto"
        Input for each channel: "values", "difference" (per unit of time [5]_), or
        "values+difference", which "auto" is for the conv stem; "values" for the others.
    view_params : dict, optional
        Options of the difference: ``{"scale": 0.25}`` multiplies it once standardised.
    timestamps : {None, "index"}, default=None
        "index" takes the times of the steps, numbers or dates, from the pandas index of a series.
        Encodings see time since the first step, in median intervals of training.
    augmentation : str, Augmentation, class, factory or None, default="auto"
        Random changes of the training series: a name from ``tsformer.augmentation.names()``, a sum,
        or your own. "auto" is "warp+cutmix" for the conv stem and None for others, without the warp
        if that hides the classes, and with fewer mixed series for many classes or series.
    augmentation_params : dict, optional
        Options of the augmentation, such as ``{"sigma": 0.1}`` or ``{"warp": {"p": 0.25}}``.
    init_from : path, fitted or unfitted estimator, or None, default=None
        A `TSTransformerEncoder`, another transformer or the folder of a saved one, whose weights
        stem, encoding and blocks start from; where they do not match, a warning says so. An
        unfitted encoder is fitted in each `fit`; a fitted one must not have seen the test series,
        and needs `sklearn.frozen.FrozenEstimator` in a parameter grid. Not saved.
    freeze : {None, "backbone"}, default=None
        "backbone" trains the head alone: the weights from `init_from` stay.
    pretrained_lr_scale : float > 0, default=1.0
        Factor of the learning rate for the weights from `init_from`.
    max_epochs : int or "auto", default="auto"
        Passes over the training series. "auto" is 60, but 1000 to 2500 optimizer steps, and at
        least 20; from 1000 series on, 80000 series, and at least 4.
    batch_size : int or "auto", default="auto"
        Series per step. "auto" is 16, from 1000 series on 64, and at most 32,768 tokens.
    learning_rate : float or "auto", default="auto"
        Peak rate of AdamW, after a tenth of the steps; then it falls to zero along a cosine. "auto"
        is 0.002, and 0.004 from 1000 training series on.
    weight_decay : float, default=0.05
        Weight decay of AdamW, for weight matrices but not for position tables and norms.
    early_stopping : bool or "auto", default="auto"
        Whether to stop when the loss on `X_val`, or on a held-out part of `X`, no longer falls, and
        restore the best epoch. "auto" stops early if `X_val` is given.
    validation_fraction : float in (0, 1), default=0.1
        Share of each class that is held out.
    n_iter_no_change : int or "auto", default="auto"
        Epochs without a lower validation loss before the end; "auto" is 30 %, and at least 20.
    n_estimators : int, default=1
        Ensemble members, whose probabilities are averaged. Members differ in their seeds and stop
        separately; the first is the model of ``n_estimators=1``.
    n_jobs : int or None, default=1
        Processes that train members on a CPU, without `callbacks` and `verbose`; -1 is one per
        core.
    n_threads : int or "auto", default="auto"
        Threads of torch on a CPU inside the methods. "auto" is the number of ``OMP_NUM_THREADS`` or
        of `torch.set_num_threads` if set, else one, and more for large models only.
    callbacks : list of tsformer.training.Callback, optional
        Called during training, for one member after another.
    warm_start : bool, default=False
        Whether `fit` continues from the weights of the previous fit.
    device : str or torch.device, default="auto"
        "auto" is cuda if available, else mps, else cpu.
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        "auto" is bfloat16 autocast for large models on CUDA devices that support it, else float32.
    compile : {"auto", "cuda-graphs", True, False}, default="auto"
        "cuda-graphs" captures optimizer steps and replays them, several times faster on a GPU;
        "auto" does so where the step can be captured. True is `torch.compile`.
    checkpoint_dir : str or Path, optional
        Folder for checkpoints of a running fit, each of one training run: data, parameters, seed.
    checkpoint_minutes : float, default=10.0
        Minimum time between two checkpoints.
    resume : bool, default=False
        Whether `fit` continues from the checkpoint of the same training run, if any; on a CPU bit
        for bit as without the interruption.
    random_state : int, RandomState or None, default=None
        Seed of all randomness: the same int gives the same predictions on the same machine, bit for
        bit. Torch's global generators are restored; fits in several threads take turns.
    verbose : int or bool, default=0
        1 shows progress on standard error.
    label_smoothing : float in [0, 1), default=0.1
        Share of the target probability that is spread evenly over the classes.
    temperature : float > 0 or "auto", default="auto"
        Divisor of the logits before the softmax [1]_, which `calibrate` fits. "auto" is 0.75 after
        training on mixed series, whose targets are less certain, and 1 otherwise.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn; only with one label per series.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The class labels, sorted; ``0, 1, ..., n_labels - 1`` for several labels per series.
    n_features_in_, n_channels_, n_iter_ : int
        Columns (time steps) of a 2-D `X` or else channels; channels; most epochs of a member.
    history_ : tsformer.training.History
        Loss, learning rate, seconds and validation of each epoch; for several members, their mean.
    preprocessor_ : tsformer.data.preprocessor.Preprocessor
        The fitted scaling, or vocabulary of codes.
    model_, models_, histories_ : TSTransformer, list, list
        Module of the first member; module and history of each that was trained.
    augmentation_ : Augmentation or None
        The augmentation of the training. It is not saved.
    temperatures_, estimators_ : list of float, list of TSTransformerClassifier
        Divisor of the logits of each member; each member as a classifier that shares its module.
    device_ : torch.device
        The device of the modules.

    References
    ----------
    .. [1] Guo et al., "On Calibration", ICML 2017. https://arxiv.org/abs/1706.04599
    .. [2] He et al., "Deep Residual Learning", CVPR 2016. https://arxiv.org/abs/1512.03385
    .. [3] Ioffe and Szegedy, "Batch Normalization", ICML 2015. https://arxiv.org/abs/1502.03167
    .. [4] Ba et al., "Layer Normalization", 2016. https://arxiv.org/abs/1607.06450
    .. [5] Tan et al., "MultiRocket", 2022. https://arxiv.org/abs/2102.00457

    Examples
    --------
    >>> from tsformer import TSTransformerClassifier, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> clf = TSTransformerClassifier(encoding="lspe", max_epochs=5, random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:3]).shape
    (3, 2)
    """

    label_smoothing: Annotated[float, real(0, 1, also=(0,))] = 0.1
    temperature: Annotated[float | str, real(0, also=("auto",))] = "auto"
    class_weight: Mapping[Any, float] | str | None = None

    target_: LabelTarget = field(init=False)

    conv_params = CONV_PARAMS
    #: Whether `fit` accepts unknown labels among several, and the default of `explain`.
    masks_unknown = True
    default_method = "integrated_gradients"

    classes_ = property(classification.classes)
    decision_function = classification.decision_function
    predict = classification.predict
    score = classification.score
    explain = classification.explain
    calibrate_sets = classification.calibrate_sets
    predict_set = classification.predict_set
    restored_target = classification.restored_target
    _learn_target = classification.learn_target

    @in_plain_torch
    def calibrate(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        groups: Any = None,
        times: Any = None,
        cv: Any = None,
    ) -> Self:
        """Fit the temperature to series that the model was not trained on.

        Multiplies the temperatures of all members by the factor in [0.05, 20] with the lowest log
        loss of `predict_proba`. They are saved and exported with the model; `fit` resets them.

        Parameters
        ----------
        X, y, sample_weight, times : as in `fit`
            Held-out series; with `cv`, the series of `fit`.
        groups : array-like (n,), optional
            Group of each series, for the folds of `cv` and the fits in them.
        cv : int, cross-validation generator or iterable, optional
            Calibrates on out-of-fold predictions of copies fitted to the other folds.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a class is missing in the training part of a fold, or a series is in no fold.
        KeyboardInterrupt
            After Ctrl-C. The temperatures stay unchanged.

        Examples
        --------
        >>> from tsformer import TSTransformerClassifier
        >>> X = np.random.default_rng(0).normal(size=(24, 1, 30))
        >>> y = (X[:, 0, :15].mean(axis=1) > 0).astype(int)
        >>> clf = TSTransformerClassifier(max_epochs=5, random_state=0).fit(X[:12], y[:12])
        >>> clf.calibrate(X[12:], y[12:]).predict_proba(X[:3]).shape
        (3, 2)
        """
        from scipy.optimize import minimize_scalar

        refuse_several(self, "calibrate")
        check_ids(X, y, "y")
        check_ids(X, sample_weight, "sample_weight")
        series = self.read_series(X, times)
        targets, weights = (
            self.target_.encode(y, "y", len(series)),
            read_weights(sample_weight, len(series)),
        )
        data = TrainingData(series, targets, weights)
        data.groups = None if groups is None else read_groups(groups, X, len(series))
        drawn = isinstance(cv, Integral)  # otherwise, folds come with the series or from a splitter
        if drawn or (cv is not None and groups is not None):
            data.groups = merge_copies(data.groups, first_equal(series))
        if cv is None or drawn or hasattr(cv, "split"):
            data = data.part(weights > 0)
            targets, weights = targets[weights > 0], weights[weights > 0]
        scores = self._scores(data.series) if cv is None else self._out_of_fold(data, cv)
        of_class = torch.from_numpy(targets)[None, :, None].expand(len(scores), -1, 1)
        counted = torch.from_numpy(weights).double()

        def log_loss(log_factor: float) -> float:
            logs = (scores / exp(log_factor)).log_softmax(dim=-1)
            return -float(counted @ logs.gather(2, of_class)[..., 0].logsumexp(dim=0))

        bounds = [log(factor) for factor in _FACTORS]
        least = minimize_scalar(log_loss, bounds=bounds, method="bounded")
        if min(map(log_loss, bounds)) <= least.fun:  # also where the loss is flat, at zero
            warn_caller(
                f"no optimal factor of the temperature within {list(_FACTORS)} for these "
                f"{len(targets)} series; calibrate with more series, including misclassified ones"
            )
        self.temperatures_ = [temperature * exp(least.x) for temperature in self.temperatures_]
        predicted = (scores / exp(least.x)).softmax(dim=-1).mean(dim=0).argmax(dim=1).numpy()
        of = f"{'on' if cv is None else 'out of fold for'} the {len(targets)} calibration series"
        calibrated = {
            f"accuracy {of}": float(np.average(predicted == targets, weights=weights)),
            f"log loss {of}": log_loss(least.x) / float(counted.sum()) + log(len(scores)),
        }
        self.facts_ = {**self.facts_, "scores": calibrated}
        return self

    def used_values(self) -> dict[str, Any]:
        distinct = [float(f"{value:.4g}") for value in dict.fromkeys(self.temperatures_)]
        temperature = distinct[0] if len(distinct) == 1 else distinct
        return super().used_values() | {"temperature": temperature}

    def _out_of_fold(self, data: TrainingData, cv: Any) -> Tensor:
        """Return the scores of copies fitted to the other folds."""
        selection = imported("sklearn.model_selection")
        alone = {"callbacks": None, "verbose": 0, "checkpoint_dir": None, "resume": False}
        copied: Self = clone(self).set_params(**alone, warm_start=False)
        targets, n_classes = data.targets, self.target_.n_outputs
        shape = len(self.models_), len(targets), n_classes
        scores = torch.full(shape, torch.nan, dtype=torch.float64)
        if data.groups is not None and isinstance(cv, Integral):
            cv = selection.StratifiedGroupKFold(int(cv))
        folds = selection.check_cv(cv, targets, classifier=True)
        for fold in folds.split(targets, targets, data.groups):
            train, test = (np.sort(np.arange(len(targets))[index]) for index in fold)
            training = data.part(train)
            if missing := set(range(n_classes)) - set(training.targets):
                label = self.classes_.tolist()[min(missing)]
                raise ValueError(
                    f"class {label!r} is in no training part of a fold; use fewer folds"
                )
            options: dict[str, Any] = {"sample_weight": training.weights, "groups": training.groups}
            with unobserved(), suppress_interruption_warning():
                copied.fit(training.series, self.classes_[training.targets], **options)
            if any(history.interrupted for history in copied.histories_):
                raise KeyboardInterrupt  # an unfinished fold cannot calibrate
            copied.temperatures_ = self.temperatures_  # the factor refers to these temperatures
            scores[:, test] = copied._scores(data.series.part(test))
        if unseen := int(scores.isnan().any(dim=2).any(dim=0).sum()):
            raise ValueError(f"cv={cv!r} leaves {unseen} series out of all folds")
        return scores

    @in_plain_torch
    def predict_proba(
        self, X: Any, times: Any = None, *, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Compute the probability of each class or label, in the order of `classes_`.

        Parameters
        ----------
        X, times : as in `transform`
        out : ndarray (n, n_classes) of floating point, optional
            Output array, such as a `numpy.memmap` if the probabilities do not fit into memory.

        Returns
        -------
        ndarray (n, n_classes)
            `out`, or a new array of float64. Rows sum to 1, unless there are several labels.
        """
        series = self._source(X, times)
        shape = len(series), len(self.target_.classes)
        if out is None:
            out = np.empty(shape)
        elif not isinstance(out, np.ndarray) or out.shape != shape or out.dtype.kind != "f":
            raise ValueError(
                f"out must be a NumPy array of floats of shape {shape}; got {out!r:.80}"
            )
        for rows, scores in self._in_chunks(series, self._scores):
            out[rows] = self.target_.probabilities(scores).numpy().mean(axis=0)
        return out

    @in_plain_torch
    def predict_proba_members(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute the probability of each class according to each member.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n_estimators, n, n_classes) of float64
            In the order of `estimators_`; their mean is `predict_proba`.
        """
        return self.target_.probabilities(self._scores(X, times)).numpy()

    def _scores(self, X: Any, times: Any = None) -> Tensor:
        """Return the logits over the temperatures, ``[members, n, K]``."""
        outputs = torch.from_numpy(self._outputs(X, times)).double()
        return outputs / torch.tensor(self.temperatures_, dtype=torch.float64)[:, None, None]

    def logits(self, X: Any, times: Any = None) -> npt.NDArray[np.floating[Any]]:
        scores = self._scores(X, times)
        if len(scores) == 1:
            return scores[0].float().numpy()
        return self.target_.mean_logits(scores).numpy()

    @in_plain_torch
    def attention(self, X: Any, times: Any = None, *, member: int = 0) -> AttentionMaps:
        """Compute the attention weights of every block and head.

        Terms that an encoding adds after the softmax, as "erpe" does, are not included.

        Parameters
        ----------
        X, times : as in `transform`
        member : int, default=0
            Index of the member.

        Returns
        -------
        AttentionMaps
            ``weights`` (n, n_layers, n_heads, N, N), ``times`` (n, N) of the tokens since the first
            step of each series, and ``mask`` (n, N), False at padding.

        Raises
        ------
        ValueError
            If there is no such member, or a model has no attention blocks.

        Examples
        --------
        >>> from tsformer import TSTransformerClassifier
        >>> X, y = np.random.default_rng(0).normal(size=(12, 1, 30)), [0, 1] * 6
        >>> clf = TSTransformerClassifier(max_epochs=2, random_state=0).fit(X, y)
        >>> clf.attention(X[:3]).weights.shape
        (3, 2, 4, 30, 30)
        """
        check_is_fitted(self)
        check_number("member", member, 0, len(self.models_) - 1, whole=True)
        panel = self.preprocessor_.transform(self._source(X, times))
        return attention_maps(self.models_[member], panel, self.preprocessor_.time_step)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_label = True
        return tags

    def describe_models(self) -> dict[str, Any]:
        return super().describe_models() | {"temperatures": self.temperatures_}

    def restore_models(
        self, described: dict[str, Any], saved: Sequence[Mapping[str, Tensor]]
    ) -> None:
        super().restore_models(described, saved)
        self.temperatures_ = read_fields(described, temperatures=list[Positive])["temperatures"]
        if len(self.temperatures_) != len(self.models_):
            raise ValueError(f"temperatures must be {len(self.models_)}, as many as members")
