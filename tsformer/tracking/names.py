"""Names and texts as every MLflow store accepts them."""

from __future__ import annotations

import os
import re

from tsformer.tracking.settings import warn

# A database refuses longer names; some characters are left for a suffix and a prefix.
_NAME_LENGTH = 220
_REFUSED = re.compile(r"[^/\w.\- ]" if os.name == "nt" else r"[^/\w.\- :]")


def storable(value: object, length: int | None = None) -> str:
    """Return a value as text, NUL and surrogates escaped, of at most `length` characters."""
    try:
        text = str(value)
    except Exception as error:  # a class of the user's
        text = f"<{type(value).__name__}: str() raised {type(error).__name__}>"
    # A database may refuse NUL, and UTF-8 has no lone surrogates.
    text = text[:length].replace("\0", r"\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")[:length]


def storable_name(name: str) -> str:
    """Return a name with characters and path parts replaced that MLflow refuses.

    Examples
    --------
    >>> storable_name("class_weight.walk (slow)")
    'class_weight.walk _slow_'
    >>> storable_name("../a//b")
    'a/b'
    """
    parts = _REFUSED.sub("_", name[:_NAME_LENGTH]).split("/")
    return "/".join(part for part in parts if part.strip(".")) or "_"


class Names:
    """The names under which one run stores parameters, metrics or tags."""

    def __init__(self) -> None:
        self._stored: dict[str, str] = {}

    def __call__(self, name: object) -> str:
        """Return the stored form of a name; warn if it differs, once."""
        text = name if isinstance(name, str) else storable(name, _NAME_LENGTH)
        if text not in self._stored:
            short = stored = storable_name(text)
            number = 1
            while stored in self._stored.values():
                number += 1
                stored = f"{short}_{number}"
            self._stored[text] = stored
            if stored != text:
                shown = ascii(text[:_NAME_LENGTH])
                warn(f"MLflow refuses the name {shown}: it is stored as {stored!r}", stacklevel=4)
        return self._stored[text]
