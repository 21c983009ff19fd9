"""The options of `tsformer.autolog` in this process, and warnings without credentials."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from tsformer._warnings import warn_caller

#: User and query of an address, which HTTP libraries also quote in the path of another.
_SECRETS = re.compile(r"(?<=://)[^/\s?#@]*(?:@[^/\s?#@]*)*@|(?<=\S)\?(?=\w)[^\s'\")]*")
_silent: ContextVar[bool] = ContextVar("tracking is silent", default=False)


@dataclass(frozen=True)
class TrackingSettings:
    """The options of `autolog`; can be pickled, as workers get them."""

    log_models: bool = True
    log_input_examples: bool = True
    log_datasets: bool = True
    exclusive: bool = False
    silent: bool = False
    pictures: bool | Literal["auto"] = "auto"
    extra_tags: Mapping[str, str] = field(default_factory=dict)
    dataset: str = ""  # name of the training data


@contextmanager
def speaking(settings: TrackingSettings) -> Iterator[None]:
    """Inside the block, with `silent` hide MLflow's messages and the warnings of tracking."""
    logger = logging.getLogger("mlflow")
    before, token = logger.level, _silent.set(settings.silent or _silent.get())
    if settings.silent:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
        _silent.reset(token)


def without_credentials(text: str) -> str:
    """Return an address or a message without the users, passwords and queries of addresses."""
    return _SECRETS.sub("", text)


def warn(message: str) -> None:
    """Issue a warning of tracking, unless these are silenced."""
    if not _silent.get():
        warn_caller(message)


def reason(error: Exception) -> str:
    """Return the first line of the error's message, without passwords."""
    message = without_credentials(str(error).partition("\n")[0])
    return f"({type(error).__name__}: {message[:200]})"


def warn_untracked(work: str, error: Exception) -> None:
    """Warn that tracking stopped, and why."""
    warn(f"tracking of {work} stopped; the work itself continues {reason(error)}")
