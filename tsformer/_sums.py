"""Sums of names, such as ``"tape+erpe"``, and their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tsformer._names import unknown

__all__ = ["check_options", "part_names", "share_out"]


def part_names(spec: str) -> list[str]:
    """Split a sum into the names of its parts.

    Examples
    --------
    >>> part_names("tape + erpe")
    ['tape', 'erpe']
    """
    parts = [name.strip() for name in spec.split("+")]
    doubled = {name for name in parts if parts.count(name) > 1}
    if doubled:
        raise ValueError(f"the sum {spec!r} names {min(doubled)!r} twice; name each part once")
    return parts


def share_out(
    parts: Sequence[str],
    options: Sequence[Sequence[str]],
    params: Mapping[str, Any],
    *,
    argument: str,
) -> list[dict[str, Any]]:
    """Assign each option to the one part that has it.

    Examples
    --------
    >>> share_out(["a", "b"], [["p", "q"], ["q"]], {"p": 1, "b": {"q": 2}}, argument="params")
    [{'p': 1}, {'q': 2}]
    """
    if len(parts) == 1:
        return [dict(params)]
    shares: list[dict[str, Any]] = [{} for _ in parts]
    for key, value in params.items():
        if key in parts and isinstance(value, Mapping):
            shares[parts.index(key)].update(value)
            continue
        owners = [i for i, own in enumerate(options) if key in own]
        if not owners:
            choices = sorted({option for own in options for option in own})
            raise ValueError(unknown(f"option of {'+'.join(parts)}", key, choices))
        if len(owners) > 1:
            several = [parts[i] for i in owners]
            raise ValueError(
                f"{argument} key {key!r} fits several parts, {several}; say which: "
                f"{{{several[0]!r}: {{{key!r}: {value!r}}}}}"
            )
        shares[owners[0]][key] = value
    return shares


def check_options(
    label: str, options: Sequence[str], params: Mapping[str, Any], *, argument: str
) -> None:
    """Raise ValueError if a key of `params` is not an option of `label`."""
    for key in params:
        if key not in options:
            raise ValueError(
                unknown(f"option of {label}", key, options)
                if options
                else f"{label} takes no options; got {key!r} in {argument}"
            )
