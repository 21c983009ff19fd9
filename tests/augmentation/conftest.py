"""Tests may register augmentations: they are gone when the test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tsformer.augmentation import names, unregister


@pytest.fixture(autouse=True)
def _registry_as_found() -> Iterator[None]:
    before = names()
    yield
    for name in set(names()) - set(before):
        unregister(name)
