"""Copies of pictures between runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tsformer._optional import require
from tsformer.tracking.run import TrackedRun
from tsformer.tracking.settings import warn

_COPIED_FROM = "tsformer.picture_of"


def copy_picture(run: TrackedRun, source: str) -> None:
    """Copy the picture of the encoding, if there is one, from another run."""
    if run.client is None or run.lost or not source:
        return
    try:
        if run.client.get_run(run.run_id).data.tags.get(_COPIED_FROM) == source:
            return  # MLflow would add another
        if not any(each.path == "encoding.png" for each in run.client.list_artifacts(source)):
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(run.client.download_artifacts(source, "encoding.png", folder))
            image = require("PIL.Image", extra="plots", purpose="figures in MLflow")
            with image.open(path) as picture:
                run.image(picture.convert("RGB"), "encoding")
            run.client.log_artifact(run.run_id, str(path))
    except Exception as error:  # tracking never fails a fit
        warn(f"no figure of the encoding in {run.run_id}: {type(error).__name__}: {error}")
    else:
        run.tags({_COPIED_FROM: source})
