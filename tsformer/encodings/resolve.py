"""Build modules from a specification such as ``"tape+erpe"`` and a dict of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from tsformer._registry import check_options, part_names, share_out
from tsformer.encodings.base import (
    Chain,
    Hooks,
    PositionalEncoding,
    SharedBias,
    Sum,
    check_signatures,
    hooks_of,
)

#: An encoding to build: a name or sum of names such as ``"tape+erpe"``, a class, or a function that
#: takes the sizes and options as keywords and returns a module. `resolve` builds it.
EncodingSpec = str | type[PositionalEncoding] | Callable[..., PositionalEncoding]

_SIZES = ("d_model", "n_heads", "max_len")


def resolve(
    encoding: EncodingSpec, *, d_model: int, n_heads: int, max_len: int, **encoding_params: Any
) -> PositionalEncoding:
    """Build a positional encoding from its name, a sum of names, a class or a factory.

    Parameters
    ----------
    encoding : str, PositionalEncoding subclass, or callable
        ``"lspe"``; a sum such as ``"tape+erpe"``, whose hooks apply in order; a class; or a
        callable that takes the sizes and options as keywords and returns a PositionalEncoding.
    d_model : int
        Model width `D`.
    n_heads : int
        Number of heads `H`.
    max_len : int
        Number of tokens of the longest training series.
    **encoding_params
        Options of the class. In a sum an option goes to the one part that has it; if several
        have it, or to be explicit, nest it under the name of the part:
        ``fixed={"base": 100.0}, rope={"base": 500.0}`` for "fixed+rope".

    Returns
    -------
    PositionalEncoding
        A module with the hooks `embed`, `rotate`, `bias` and `mix`.

    Raises
    ------
    TypeError
        If `encoding` has another type, or a factory returns another type.
    ValueError
        If a name or an option is unknown, with the nearest match and all choices; if a sum names
        a part twice; or if an option of a sum fits several parts.

    Examples
    --------
    >>> encoding = resolve("lspe", d_model=16, n_heads=4, max_len=20, d_hidden=8)
    >>> import torch
    >>> encoding.embed(torch.zeros(2, 20, 16), torch.arange(20.0)[None]).shape
    torch.Size([2, 20, 16])
    """
    sizes = {"d_model": d_model, "n_heads": n_heads, "max_len": max_len}
    makers = _makers(encoding, encoding_params, causal=False, **sizes)
    parts = [make() for make in makers]
    return parts[0] if len(parts) == 1 else Sum(parts)


class EncodingStack(nn.Module):
    """The encoding of a stack of blocks: one instance per stack, or one per block.

    A part whose class is `per_block` has an instance in each block; all blocks share any other
    part. ``stack.at(i)`` has the four hooks of block `i`; ``stack.embed`` is applied once, before
    the first block.

    Parameters
    ----------
    encoding, d_model, n_heads, max_len, **encoding_params
        As in `resolve`.
    n_layers : int
        Number of blocks.
    causal : bool, default=False
        Whether the stack is causal. Encodings that read neighbouring tokens have an option
        ``causal`` and then read earlier tokens only.
    """

    def __init__(
        self,
        encoding: EncodingSpec,
        *,
        n_layers: int,
        d_model: int,
        n_heads: int,
        max_len: int,
        causal: bool = False,
        **encoding_params: Any,
    ):
        super().__init__()
        self.n_layers = n_layers
        self.parts = nn.ModuleList()
        sizes = {"d_model": d_model, "n_heads": n_heads, "max_len": max_len}
        for make in _makers(encoding, encoding_params, causal=causal, **sizes):
            first = make()
            copies = max(n_layers, 1) if first.per_block else 1
            self.parts.append(nn.ModuleList([first, *(make() for _ in range(copies - 1))]))
        self.symmetric = all(part[0].symmetric for part in self.parts)  # type: ignore[index]

    def at(self, block: int) -> Hooks:
        """Return the hooks of block number `block`."""
        return _chained([part[min(block, len(part) - 1)] for part in self.parts])  # type: ignore[arg-type,index]

    def one_pass(self) -> list[Hooks]:
        """Return the hooks of each block for one forward pass; a bias of times is computed once."""
        columns: list[list[Hooks]] = []
        for part in self.parts:
            modules: list[Any] = list(part)  # type: ignore[call-overload]
            copies = [hooks_of(each) for each in modules]
            if len(copies) == 1:
                shared = SharedBias(copies[0]) if modules[0].bias_of_times else copies[0]
                copies = [shared] * self.n_layers
            columns.append(copies)
        return [_chained(parts) for parts in zip(*columns, strict=True)]

    def embed(self, x: Tensor, t: Tensor, mask: Tensor | None = None) -> Tensor:
        """Apply the `embed` hooks to the tokens `x` ``[B, N, D]`` at times `t` ``[1 | B, N]``.

        `mask` ``[B, N]`` is False where a token is padding. Padding is zeroed after each part, so
        that no convolution of the next part carries it to valid tokens.
        """
        for part in self.parts:
            x = hooks_of(part[0]).embed(x, t)  # type: ignore[index]
            if mask is not None:
                x = x * mask[..., None]
        return x


def _chained(parts: Sequence[Hooks]) -> Hooks:
    return parts[0] if len(parts) == 1 else Chain(parts)


def _makers(
    encoding: EncodingSpec, params: Mapping[str, Any], *, causal: bool, **sizes: int
) -> list[Callable[[], PositionalEncoding]]:
    """Return a function without arguments for each part of the sum."""
    if not isinstance(encoding, str):
        if not callable(encoding):
            raise TypeError(
                "encoding must be a name, a sum of names such as 'tape+erpe', a "
                "PositionalEncoding class or a factory; "
                f"got {encoding!r} of type {type(encoding).__name__}"
            )
        return [partial(_make, encoding, _with_direction(encoding, params, causal), sizes)]
    parts = part_names(encoding)
    classes = [PositionalEncoding.registry.find(name) for name in parts]
    options = [_options(cls) for cls in classes]
    shares = share_out(parts, options, params, argument="encoding_params")
    return [
        partial(_make, cls, _with_direction(cls, own, causal), sizes)
        for cls, own in zip(classes, shares, strict=True)
    ]


def _with_direction(factory: Any, params: Mapping[str, Any], causal: bool) -> Mapping[str, Any]:
    """Pass ``causal=True`` to parts with the option."""
    takes = isinstance(factory, type) and "causal" in inspect.signature(factory).parameters
    return {**params, "causal": True} if causal and takes else params


def _make(
    factory: Callable[..., PositionalEncoding], params: Mapping[str, Any], sizes: Mapping[str, int]
) -> PositionalEncoding:
    if isinstance(factory, type) and issubclass(factory, PositionalEncoding):
        label = factory.name or factory.__name__
        check_options(label, _options(factory), params, argument="encoding_params")
    _check_sizes(factory)
    try:
        made = factory(**sizes, **params)
    except AttributeError as error:
        if "__init__() call" not in str(error):
            raise
        name = getattr(factory, "__qualname__", repr(factory))
        raise TypeError(
            f"the constructor of {name} must call super().__init__() before it assigns parameters "
            f"or modules: {error}"
        ) from error
    if not isinstance(made, PositionalEncoding):
        raise TypeError(
            f"the encoding factory {factory!r} returned {type(made).__name__}; "
            "it must return a PositionalEncoding"
        )
    check_signatures(made)
    return made


def _check_sizes(factory: Callable[..., PositionalEncoding]) -> None:
    """Raise TypeError for a class or factory that does not take the sizes of the model."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables of C have no signature
        return
    kinds = {each.kind for each in parameters.values()}
    missing = [name for name in _SIZES if name not in parameters]
    if missing and inspect.Parameter.VAR_KEYWORD not in kinds:
        name = getattr(factory, "__qualname__", repr(factory))
        constructor = "the constructor of " if isinstance(factory, type) else ""
        raise TypeError(
            f"{constructor}{name} must take {', '.join(_SIZES)} as keywords, as in "
            f"(*, {', '.join(_SIZES)}); it lacks {', '.join(missing)}"
        )


def _options(cls: type[PositionalEncoding]) -> list[str]:
    parameters = inspect.signature(cls).parameters
    return [name for name in parameters if name not in _SIZES]
