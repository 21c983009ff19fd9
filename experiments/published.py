"""The committed results that others published: where they are, and whom to compare with first."""

from __future__ import annotations

from experiments.output import COMMITTED

#: One CSV per method, as `tsformer.studies.analysis.published.read_published` reads them.
PUBLISHED = COMMITTED / "published"
#: The published methods that ours are compared with.
ANCHORS = ("HC2", "InceptionTime", "MR-Hydra", "ROCKET")
