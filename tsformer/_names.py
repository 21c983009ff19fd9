"""Texts for users: shortened values, lists, and unknown names with the nearest match."""

import difflib
from collections.abc import Iterable


def shortened(value: object, most: int = 100) -> str:
    """Return the `repr` of a value for an error message, cut after `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def nearest(name: object, choices: Iterable[object]) -> list[str]:
    """Return the choices that are spelled like `name`, at most five, the nearest first."""
    spelled = {str(choice).lower(): choice for choice in choices if isinstance(choice, str)}
    near = difflib.get_close_matches(str(name)[:100].lower(), spelled, n=5, cutoff=0.6)
    return [spelled[key] for key in near]


def unknown(kind: str, name: object, choices: Iterable[object], *, most: int = 40) -> str:
    """Return an error message for an unknown name, with the nearest match and the choices."""
    choices = list(choices)
    near = nearest(name, choices)
    message = f"unknown {kind} {shortened(name)}"
    if near:
        message += f": did you mean {near[0]!r}?"
    if len(choices) <= most:
        chosen = ", ".join(map(repr, choices))
        return f"{message}{' Choose' if near else '; choose'} from: {chosen}"
    if len(near) > 1:
        message += f" Near it: {', '.join(repr(each) for each in near[1:])}."
    return f"{message} ({len(choices)} are known)"


def listed(names: Iterable[object], counts: Iterable[int] = ()) -> str:
    """Return names of at most 40 characters with counts, at most 20."""
    texts = [text if len(text) <= 40 else f"{text[:37]}..." for text in map(str, names)]
    numbers = [f" ({n:,})" for n in counts] or [""] * len(texts)
    parts = [text + number for text, number in zip(texts, numbers, strict=True)]
    rest = [f"and {len(parts) - 20:,} more"] if len(parts) > 20 else []
    return ", ".join([*parts[:20], *rest])
