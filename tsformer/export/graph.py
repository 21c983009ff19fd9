"""A fitted estimator as one torch module: its preprocessor and its models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.overrides import TorchFunctionMode

from tsformer._optional import require
from tsformer._warnings import warn_caller
from tsformer.estimators import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
)
from tsformer.estimators.base import TransformerEstimator
from tsformer.estimators.saving import fitted_parts
from tsformer.export.convolutions import Features

#: Level of a channel, in deviations, from which on rounding to float32 changes probabilities by
#: about 0.001.
_MOST_OFFSET = 1e5


class InOnnx(TorchFunctionMode):
    """While a model is traced, replaces functions without an ONNX operator, as torch is slow."""

    replaced: ClassVar[dict[Any, Callable[..., Any]]]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.replaced.get(func, func)(*args, **(kwargs or {}))


def _cummax(x: Tensor, dim: int) -> Any:
    """`torch.cummax` along the last dimension, as row maxima of a lower triangle."""
    before = torch.ones(x.shape[dim], x.shape[dim], dtype=torch.bool).tril()
    return x.unsqueeze(-2).where(before, -torch.inf).max(dim=-1)


def _where(x: Tensor, condition: Tensor, alternative: Any) -> Tensor:
    """`Tensor.where`; onnxruntime lacks it for bools."""
    if x.dtype == torch.bool:
        return (condition & x) | (~condition & alternative)
    return x.where(condition, alternative)


def _searchsorted(edges: Tensor, values: Tensor) -> Tensor:
    """`torch.searchsorted` for edges ``[M]``, as a bisection with a fixed number of steps."""
    halvings = len(edges).bit_length()
    padded = nn.functional.pad(edges, (0, 2**halvings - 1 - len(edges)), value=torch.inf)
    index = torch.zeros_like(values, dtype=torch.long)
    for i in reversed(range(halvings)):
        index = index + 2**i * (padded[index + 2**i - 1] < values)
    return index


def _hartley(spectrum: Tensor, n: int, dim: int) -> Tensor:
    """All `n` numbers of the Hartley transform, real part minus imaginary, of a half spectrum."""
    real, imaginary = torch.view_as_real(spectrum).unbind(-1)
    rest = (real + imaginary).narrow(dim, 1, n - real.shape[dim]).flip(dim)
    return torch.cat([real - imaginary, rest], dim=dim)


def _irfft(spectrum: Tensor, n: int, dim: int) -> Tensor:
    """`torch.fft.irfft`, as the Hartley transform is its own inverse, and onnxruntime has none."""
    transform = _hartley(spectrum, n, dim)
    return (_hartley(torch.fft.rfft(transform, dim=dim), n, dim) / n).float()


def _batch_norm(
    x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float, **_: Any
) -> Tensor:
    """`torch.nn.functional.batch_norm` by running averages."""
    scale = weight * (var + eps).rsqrt()
    columns = (-1, *[1] * (x.ndim - 2))
    return x * scale.view(columns) + (bias - mean * scale).view(columns)


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """ONNX operators of functions that torch otherwise decomposes, in a second trace."""
    op = require("onnxscript", extra="onnx", purpose="writing ONNX").opset18

    def rfft(x: Any, n: Any, dim: int, *_: Any) -> Any:
        whole = op.Unsqueeze(x, op.Constant(value_ints=[-1]))
        return op.DFT(whole, n, axis=dim - 1, onesided=1)

    def conv_transpose1d(x: Any, weight: Any, bias: None, strides: list[int], *_: Any) -> Any:
        return op.ConvTranspose(x, weight, strides=strides)

    aten = torch.ops.aten
    return {
        aten.to.dtype: lambda x, dtype, *_: op.Cast(x, to=dtype),
        aten.fft_rfft.default: rfft,
        aten.conv_transpose1d.default: conv_transpose1d,
    }


InOnnx.replaced = {
    Tensor.__and__: torch.logical_and,
    Tensor.__or__: torch.logical_or,
    Tensor.__rsub__: lambda x, value: x.neg() + value,
    Tensor.diff: lambda x, dim=-1: (
        x.narrow(dim, 1, x.shape[dim] - 1) - x.narrow(dim, 0, x.shape[dim] - 1)
    ),
    Tensor.square: lambda x: x * x,
    Tensor.nan_to_num: lambda x, nan: x.where(~x.isnan(), nan),
    nn.functional.batch_norm: _batch_norm,
    Tensor.where: _where,
    Tensor.cummax: _cummax,
    torch.searchsorted: _searchsorted,
    # In float64: the float32 version of onnxruntime is off by 1e-5.
    torch.fft.rfft: lambda x, n, dim: torch.fft.rfft(x.double(), n=n, dim=dim),
    torch.fft.irfft: _irfft,
}


def graph_of(estimator: Any) -> Graph:
    """Return a fitted estimator's prediction as a module."""
    kinds: tuple[Any, ...] = (TransformerGraph, ConvolutionGraph, EnsembleGraph)
    for kind in kinds:
        if isinstance(estimator, kind.exports):
            check_is_fitted(estimator)
            novelty = getattr(estimator, "novelty_", None)  # None if saved without
            offsets = torch.zeros(1) if novelty is None else novelty.level.abs() / novelty.unit
            if (largest := float(offsets.max())) > _MOST_OFFSET:
                warn_caller(
                    f"an exported program reads X in float32 and loses digits of channel "
                    f"{int(offsets.argmax())}, whose level is {largest:.3g} times its deviation; "
                    "subtract the level from X before fit"
                )
            return kind(estimator)
    kind = type(estimator).__name__
    problem = f"only estimators of this package are exported; got {kind}"
    raise TypeError(f"{problem}: of a pipeline, pass the last step")


class Graph(nn.Module):
    """Base of the modules that compute an estimator's predictions from raw series."""

    exports: ClassVar[type[Any]]
    outputs: Callable[..., Tensor]
    output = "probabilities"
    encoding: Any = None
    single = False  # whether the output of a series is one number

    def __init__(self, estimator: Any, length: int, model: dict[str, Any]):
        super().__init__()
        self.preprocessor = copy.deepcopy(estimator.preprocessor_)
        step, scaling = self.preprocessor.time_step, self.preprocessor.describe()["scaling"]
        self.described: dict[str, Any] = {"model": model, "scaling": scaling, "time_step": step}
        self.inputs = {"X": torch.zeros(3, estimator.n_channels_, length)}
        if step is not None:
            self.inputs["times"] = torch.zeros(3, length)
        self.target = estimator.target_

    def traced(self) -> ExportedProgram:
        """Export the module for any number and length of series."""
        sizes = {name: {0: Dim.DYNAMIC, x.ndim - 1: Dim.DYNAMIC} for name, x in self.inputs.items()}
        return torch.export.export(
            self.eval(),
            tuple(self.inputs.values()),
            dynamic_shapes=sizes,
            # Sizes that cannot be proven are checked at run time instead of refused now.
            prefer_deferred_runtime_asserts_over_guards=True,
        )

    def forward(self, X: Tensor, times: Tensor | None = None) -> Tensor:
        """Compute the predictions ``[n]`` or ``[n, K]``, NaN for series without any value."""
        if times is not None:
            times = times.expand(X.shape[0], X.shape[2]).double()  # the sizes of X
        values, mask, times = self.preprocessor(X.transpose(1, 2).double(), times)
        outputs = self.outputs(values, mask, times)
        outputs = outputs.where(mask.any(dim=1, keepdim=True), torch.nan)
        return outputs[:, 0] if self.single else outputs


class TransformerGraph(Graph):
    """A transformer, or the mean of several."""

    exports = TransformerEstimator

    def __init__(self, estimator: Any):
        config = estimator.model_.config
        super().__init__(estimator, config.max_len + 5, vars(config))
        models = (copy.deepcopy(model).cpu() for model in estimator.models_)
        self.models = nn.ModuleList(model.requires_grad_(False) for model in models)
        known = getattr(self.preprocessor, "known", torch.zeros(1))
        if (largest := int(known.abs().max())) > 2**24:
            raise ValueError(
                f"an exported model reads codes as float32, exact up to {2**24}; got the code "
                f"{largest}: renumber the codes"
            )
        self.encoding = config.encoding
        self.temperatures = list(getattr(estimator, "temperatures_", ()))
        self.embeds = isinstance(estimator, TSTransformerEncoder)
        if not isinstance(estimator, TSTransformerClassifier):
            self.output = "embeddings" if self.embeds else "prediction"
            self.single = not self.embeds and not self.target.shape
        self.target_mean, self.target_std = (
            torch.as_tensor(getattr(estimator, name, 0.0), dtype=torch.float64)
            for name in ("target_mean_", "target_std_")
        )

    def outputs(self, values: Tensor, mask: Tensor, times: Tensor | None) -> Tensor:
        models: Any = self.models
        if self.embeds:
            return torch.cat([model.embed(values, mask, times) for model in models], dim=1)
        outputs = [model(values, mask, times).double() for model in models]
        if self.temperatures:
            scaled = zip(outputs, self.temperatures, strict=True)
            outputs = [self.target.probabilities(out / temperature) for out, temperature in scaled]
        mean = outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(dim=0)
        return mean.float() if self.temperatures else mean * self.target_std + self.target_mean


class ConvolutionGraph(Graph):
    """Random convolutions and the ridge that reads them."""

    exports = RandomConvolutionClassifier

    def __init__(self, estimator: Any):
        model = copy.deepcopy(estimator.model_).cpu()
        sizes = {name: getattr(model.convolutions, name) for name in ("n_features", "n_groups")}
        super().__init__(estimator, 23, sizes)
        if self.preprocessor.time_step is not None:
            raise ValueError(
                "random convolutions with times cannot be exported: resample the series to "
                "regular steps, and fit without times"
            )
        self.features, self.ridge = Features(model.convolutions), model.ridge

    def outputs(self, values: Tensor, mask: Tensor, times: Tensor | None) -> Tensor:
        return self.target.probabilities(self.ridge(self.features(values, mask)))


class EnsembleGraph(Graph):
    """The weighted mean of the probabilities of parts."""

    exports = TSEnsembleClassifier

    def __init__(self, estimator: Any):
        nn.Module.__init__(self)
        members = {name: graph_of(member) for name, member in fitted_parts(estimator).items()}
        self.parts = nn.ModuleDict(members)
        self.weights = dict(estimator.weights_)
        *_, last = members.values()  # the transformer, if there is one
        self.inputs, self.encoding = last.inputs, last.encoding
        described = {name: member.described for name, member in members.items()}
        self.described = {"weights": self.weights, "parts": described}

    def forward(self, X: Tensor, times: Tensor | None = None) -> Tensor:
        weighted = [self.weights[name] * member(X) for name, member in self.parts.items()]
        return torch.stack(weighted).sum(dim=0)
