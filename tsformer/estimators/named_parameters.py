"""Unknown parameters: the error names the class that was asked for and the nearest parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, Self

from tsformer._names import unknown

__all__ = ["NamedParameters", "names_its_parameters"]

P = ParamSpec("P")


def names_its_parameters(init: Callable[P, None]) -> Callable[P, None]:
    """Decorate a constructor so that it refuses unknown parameters in words of its own.

    Python's own message names the class that defines the constructor, which for most of our
    estimators is not the one that the user called, and no parameter that exists. The signature,
    which scikit-learn, sktime and aeon inspect, stays as it is.
    """
    signature = inspect.signature(init)
    parameters = list(signature.parameters.values())[1:]  # without self
    names = [parameter.name for parameter in parameters]
    unnamed = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]

    @wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        kind = type(args[0]).__name__
        for name in kwargs:
            if name not in names:
                raise TypeError(unknown(f"parameter of {kind}", name, names, most=len(names)))
        if len(args) - 1 > len(unnamed):
            raise TypeError(
                f"{kind} takes only {', '.join(unnamed)} without a name, but got {len(args) - 1} "
                f"values; name the others, as in {kind}({names[len(unnamed)]}=...)"
            )
        init(*args, **kwargs)

    # For what does not look behind a wrapper, such as inspect.getfullargspec.
    checked.__signature__ = signature  # type: ignore[attr-defined]
    return checked


class NamedParameters:
    """Base of all estimators: `set_params` names the nearest parameter to one that is unknown.

    In the bases of a class it must precede the framework's own base, whose method it extends.
    """

    get_params: Callable[..., dict[str, Any]]

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no such parameter, as in all of scikit-learn. Nothing is set then.
        """
        known = self.get_params(deep=False)
        for key, value in params.items():
            name, _, option = key.partition("__")
            part = params.get(name, known.get(name))
            if name not in known:
                kind = type(self).__name__
                problem = unknown(f"parameter of {kind}", name, known, most=len(known))
            elif option and not hasattr(part, "set_params"):
                problem = f"{name}={part!r} has no parameters of its own"
                if f"{name}_params" in known:
                    problem += f"; its options are set by {name}_params={{{option!r}: {value!r}}}"
            else:
                continue
            raise ValueError(f"Invalid parameter {key!r}: {problem}")
        super().set_params(**params)  # type: ignore[misc]
        return self
