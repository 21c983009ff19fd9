"""Export a fitted estimator as one program, to run without scikit-learn or without Python.

The program contains the preprocessor and takes raw series, in float32: ``X``
``[n, channels, length]``, one or more, NaN where a value is missing and past the end; and, if the
estimator was fitted with times, ``times`` ``[n, length]``, numbers in the same unit, or seconds for
dates. It returns ``probabilities`` ``[n, n_classes]`` in the order of the classes, a regressor's
``prediction`` ``[n]`` in float64, or the ``embeddings`` ``[n, D]`` of an encoder. Instead of
warnings and errors, a series without any value gives NaN, and codes outside the training data
are one unknown code. Float32 loses digits of values with a large offset relative to their spread.

All encodings of the package can be exported, and your own if torch can trace it.
"""

import functools
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.onnx import ONNXProgram

import tsformer
from tsformer._files import replacing
from tsformer._optional import require
from tsformer._precision import in_plain_torch
from tsformer.estimators.series_estimator import SeriesEstimator
from tsformer.export.graph import Graph, InOnnx, graph_of, translations

__all__ = ["to_onnx", "to_torch_export"]


@in_plain_torch
def to_torch_export(
    estimator: SeriesEstimator, path: str | os.PathLike[str] | None = None
) -> ExportedProgram:
    """Export a fitted estimator with `torch.export`, on the CPU.

    Parameters
    ----------
    estimator : fitted estimator
        A classifier or regressor of this package; one with random convolutions only if it was
        fitted without times.
    path : str or path, optional
        A file to write, usually ``.pt2``; its extra files hold the same metadata as in `to_onnx`.

    Returns
    -------
    torch.export.ExportedProgram
        ``program.module()`` is called with `X`, or with `X` and `times`, as described for this
        module. Series need at least two tokens; with random convolutions, three steps.

    Raises
    ------
    TypeError, sklearn.exceptions.NotFittedError, ValueError
        If `estimator` is of another type, not fitted or cannot be exported, or `path` is a folder.

    Examples
    --------
    >>> from tsformer import TSTransformerClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(8, 2, 20)), ["no", "yes"] * 4
    >>> clf = TSTransformerClassifier(stem="linear", d_model=8, n_layers=1, max_epochs=1).fit(X, y)
    >>> program = to_torch_export(clf)
    >>> program.module()(torch.randn(5, 2, 30)).shape
    torch.Size([5, 2])
    """
    graph = graph_of(estimator)
    with nullcontext() if path is None else replacing(_file(path)) as file:
        with _explained(graph):
            program = graph.traced()
        if file is not None:
            torch.export.save(program, file, extra_files=_described(estimator, graph))
    return program


@in_plain_torch
def to_onnx(estimator: SeriesEstimator, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator as an ONNX file, and return its path.

    It takes torch about 4 s on one core, an ensemble 6 s, and up to 6 s more the first time. The
    values of its `metadata_props`, such as "classes", "n_channels" and "model", are JSON.

    Parameters
    ----------
    estimator : fitted estimator
        As in `to_torch_export`.
    path : str or path
        The file, usually ``.onnx``. The write is atomic: a kill leaves the old file or none.

    Examples
    --------
    >>> import onnxruntime, tempfile
    >>> from tsformer import TSTransformerClassifier
    >>> X, y = np.random.default_rng(0).normal(size=(8, 2, 20)), ["no", "yes"] * 4
    >>> clf = TSTransformerClassifier(stem="linear", d_model=8, n_layers=1, max_epochs=1).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = onnxruntime.InferenceSession(to_onnx(clf, folder + "/model.onnx"))
    >>> session.run(["probabilities"], {"X": X.astype(np.float32)})[0].shape
    (8, 2)
    """
    graph = graph_of(estimator)
    require("onnx", extra="onnx", purpose="writing ONNX")
    table = translations()
    with replacing(_file(path)) as file:  # before the export, which takes seconds
        with _explained(graph):
            with InOnnx():
                program = graph.traced()
            written = _in_onnx(program, graph, table)
        written.model.metadata_props.update(_described(estimator, graph))
        file.write(written.model_proto.SerializeToString())
    return Path(path)


def _in_onnx(program: ExportedProgram, graph: Graph, table: Any) -> ONNXProgram:
    """Translate a program, without a second trace where each operator has a translation."""
    axes = {"X": {0: "n", 2: "length"}, "times": {}}
    translated = functools.partial(
        torch.onnx.export,
        program,
        input_names=list(graph.inputs),
        output_names=[graph.output],
        dynamic_shapes={name: axes[name] for name in graph.inputs},  # only to name them
        custom_translation_table=table,
        dynamo=True,
        optimize=False,
        verbose=False,
    )
    program.run_decompositions = lambda *_: program
    try:
        written = translated()
    except torch.onnx.errors.OnnxExporterError:
        del program.run_decompositions
        written = translated()
    assert written is not None  # for mypy
    # Patterns to fuse would take a second, and runtimes fuse them as they load a model.
    optimizer = require("onnxscript.optimizer", extra="onnx", purpose="writing ONNX")
    optimizer.fold_constants(written.model)
    optimizer.remove_unused_nodes(written.model)
    for node in written.model.graph.all_nodes():
        node.metadata_props.clear()  # stack traces, with paths of this machine
    return written


def _described(estimator: SeriesEstimator, graph: Graph) -> dict[str, str]:
    described = {
        "tsformer": tsformer.__version__,
        "torch": torch.__version__,
        "estimator": type(estimator).__name__,
        "classes": getattr(estimator, "classes_", np.empty(0)).tolist(),
        "n_channels": estimator.n_channels_,
        **graph.described,
    }
    return {key: json.dumps(value, default=str) for key, value in described.items()}


@contextmanager
def _explained(graph: Graph) -> Iterator[None]:
    """Name the encoding of a model that cannot be exported."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch logs every size it cannot prove
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            for category in (FutureWarning, RuntimeWarning):  # of torch's and onnx's own code
                warnings.filterwarnings("ignore", category=category)
            yield
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__:
            cause = cause.__cause__  # torch.onnx wraps the error in long messages
        raise ValueError(
            f"a model with encoding {graph.encoding!r} cannot be exported: "
            f"{type(cause).__name__}: {cause}. The encodings of the package can be exported"
        ) from error
    finally:
        logging.disable(before)


def _file(path: str | os.PathLike[str]) -> Path:
    """Make the folder of a file; raise ValueError for a folder."""
    if (path := Path(path)).is_dir():
        raise ValueError(f"{path} is a folder; pass the name of a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
