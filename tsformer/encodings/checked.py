"""Validate the shapes that the hooks of a user's encoding return."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from tsformer.encodings.base import HOOKS, Hooks, PositionalEncoding

__all__ = ["CheckedHooks", "check_signatures", "hooks_of"]

#: The package, whose own encodings are tested.
_PACKAGE = __name__.rpartition(".")[0] + "."


def hooks_of(part: PositionalEncoding) -> Hooks:
    """Return the hooks of a part, checked if its class is a user's."""
    return part if type(part).__module__.startswith(_PACKAGE) else CheckedHooks(part)


def check_signatures(part: PositionalEncoding) -> None:
    """Raise TypeError for a hook of a user's class with other arguments than the base class."""
    for hook in HOOKS:
        own, base = (getattr(cls, hook) for cls in (type(part), PositionalEncoding))
        if own is base or type(part).__module__.startswith(_PACKAGE):
            continue
        arguments = list(inspect.signature(base).parameters)
        try:
            inspect.signature(own).bind(*arguments)
        except TypeError as error:
            raise TypeError(
                f"the hook {hook} of {type(part).__qualname__} must take "
                f"({', '.join(arguments)}); it takes {inspect.signature(own)}"
            ) from error


class CheckedHooks:
    """The hooks of an encoding; each validates its result."""

    def __init__(self, part: PositionalEncoding):
        self.part = part

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        found = self.part.embed(x, t)
        self._check("embed", found, "[B, N, D]", [{size} for size in x.shape])
        return found

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        found: Any = self.part.rotate(q, k, t)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            self._refuse("rotate", "two tensors, for queries and keys", type(found).__name__)
        for each in found:
            self._check("rotate", each, "[B, H, N, E']", [*({size} for size in q.shape[:3]), None])
        if not _traced() and found[0].shape != found[1].shape:
            shapes = f"{tuple(found[0].shape)} and {tuple(found[1].shape)}"
            self._refuse("rotate", "two tensors of one shape", shapes)
        return found[0], found[1]

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor | None:
        found = self.part.bias(q, k, t)
        if found is not None:
            B, H, N = q.shape[:3]
            self._check("bias", found, "[1 | B, 1 | H, N, N]", [{1, B}, {1, H}, {N}, {N}])
            if not _traced() and bool((found == float("-inf")).all(dim=-1).any()):
                raise ValueError(
                    f"the hook bias of {type(self.part).__qualname__} must leave each token a key "
                    "to attend to; it returned -inf for all keys of a token"
                )
        return found

    def mix(self, v: Tensor, t: Tensor) -> Tensor | None:
        found = self.part.mix(v, t)
        if found is not None:
            self._check("mix", found, "[B, H, N, E]", [{size} for size in v.shape])
        return found

    def _check(
        self, hook: str, found: Any, letters: str, wanted: Sequence[set[int] | None]
    ) -> None:
        """Raise TypeError or ValueError for anything but a tensor of a wanted shape."""
        if not isinstance(found, Tensor):
            self._refuse(hook, f"a tensor {letters}", type(found).__name__)
        if _traced():
            return  # where sizes are symbols
        fits = found.dim() == len(wanted) and all(
            sizes is None or size in sizes for size, sizes in zip(found.shape, wanted, strict=True)
        )
        if not fits:
            names = ["E'" if s is None else " | ".join(map(str, sorted(s))) for s in wanted]
            shape = f"[{', '.join(names)}]"
            self._refuse(hook, f"shape {letters}, here {shape}", f"{list(found.shape)}")

    def _refuse(self, hook: str, wanted: str, got: str) -> NoReturn:
        name = type(self.part).__qualname__
        kind = ValueError if got.startswith(("[", "(")) else TypeError
        raise kind(f"the hook {hook} of {name} must return {wanted}; it returned {got}")


def _traced() -> bool:
    """Whether torch traces the program, or records it in a CUDA graph."""
    capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    return torch.compiler.is_compiling() or capturing
