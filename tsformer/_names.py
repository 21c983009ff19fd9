"""The message for an unknown name: what came, the nearest match, what is allowed."""

import difflib
from collections.abc import Iterable

__all__ = ["unknown"]


def unknown(kind: str, name: object, choices: Iterable[object], *, most: int = 40) -> str:
    """Say that `name` is no known `kind`, which one was probably meant, and what there is.

    Parameters
    ----------
    kind : str
        What was asked for, as in ``"encoding"``.
    name : object
        What came.
    choices : iterable
        What is allowed; strings are matched, anything else only listed.
    most : int, default=40
        With more choices than this only the nearest are listed.

    Examples
    --------
    >>> unknown("encoding", "lpse", ["lspe", "rope"])
    "unknown encoding 'lpse': did you mean 'lspe'? Choose from: 'lspe', 'rope'"
    """
    choices = list(choices)
    spelled = {str(choice).lower(): choice for choice in choices if isinstance(choice, str)}
    near = difflib.get_close_matches(str(name).lower(), spelled, n=5, cutoff=0.6)
    message = f"unknown {kind} {name!r}"
    if near:
        message += f": did you mean {spelled[near[0]]!r}?"
    if len(choices) <= most:
        return f"{message}{'' if near else ';'} Choose from: {', '.join(map(repr, choices))}"
    if len(near) > 1:
        message += f" Near it: {', '.join(repr(spelled[key]) for key in near[1:])}."
    return f"{message} ({len(choices)} are known)"
