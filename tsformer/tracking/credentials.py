"""Addresses without the passwords in them, for whatever is printed or kept."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

_USER = re.compile(r"(?<=://)[^/\s?#@]*(?:@[^/\s?#@]*)*@")
#: In an address or, as HTTP libraries quote it, in the path of one.
_QUERY = re.compile(r"(?<=\S)\?(?=\w)[^\s'\")]*")


def without_credentials(uri: str) -> str:
    """Return the address of a store without user, password and query."""
    if uri.startswith("sqlite:"):
        return uri
    parts = urlsplit(uri)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def masked(text: str) -> str:
    """Return a message without the credentials of the addresses in it."""
    return _QUERY.sub("", _USER.sub("", text))
