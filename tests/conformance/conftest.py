"""Series for the classifiers of every framework."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def panel() -> tuple[np.ndarray, np.ndarray]:
    """Two channels, 30 steps, three classes of unlike size."""
    y = np.array(["rare"] * 4 + ["some"] * 8 + ["many"] * 12)
    return np.random.default_rng(0).normal(size=(24, 2, 30)).cumsum(axis=2), y
