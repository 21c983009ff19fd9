"""What `tsformer.autolog` was called with, in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from tsformer.tracking.messages import silenced

__all__ = ["Settings", "current_settings", "set_settings", "speaking"]


@dataclass(frozen=True)
class Settings:
    """The options of `autolog`; can be pickled, as workers get them."""

    log_models: bool = True
    log_input_examples: bool = True
    log_model_signatures: bool = True
    log_datasets: bool = True
    exclusive: bool = False
    silent: bool = False
    pictures: bool | Literal["auto"] = "auto"
    extra_tags: Mapping[str, str] = field(default_factory=dict)


_settings: Settings | None = None


def current_settings() -> Settings | None:
    """Return the options; None if nothing is tracked."""
    return _settings


def set_settings(settings: Settings | None) -> None:
    """Set what `current_settings` returns."""
    global _settings
    _settings = settings


@contextmanager
def speaking(settings: Settings) -> Iterator[None]:
    """Inside the block, with `silent` hide MLflow's messages and the warnings of tracking."""
    logger = logging.getLogger("mlflow")
    before = logger.level
    if settings.silent:
        logger.setLevel(logging.CRITICAL)
    try:
        with silenced(settings.silent):
            yield
    finally:
        logger.setLevel(before)
