"""Count the files of the package that `fit` and `predict_proba` pass through, on 24 series.

python tools/files_passed.py            # two numbers
python tools/files_passed.py --list     # the files, with the functions called in each
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

import tsformer

_PACKAGE = Path(tsformer.__file__).parent


def passed(call: Callable[[], object]) -> dict[str, set[str]]:
    """Return the functions that a call enters, by file of the package."""
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            entered.add(frame.f_code)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    found: dict[str, set[str]] = {}
    for code in entered:
        path = Path(code.co_filename)
        if code.co_name != "<module>" and path.is_relative_to(_PACKAGE):
            found.setdefault(str(path.relative_to(_PACKAGE)), set()).add(code.co_name)
    return found


if __name__ == "__main__":
    X, y = np.random.default_rng(0).normal(size=(24, 1, 50)), [0, 1] * 12
    classifier = tsformer.TSTransformerClassifier(max_epochs=2, random_state=0)
    for name, call in {
        "fit": lambda: classifier.fit(X, y),
        "predict_proba": lambda: classifier.predict_proba(X),
    }.items():
        files = passed(call)
        print(name, len(files))
        for file, functions in sorted(files.items()) if "--list" in sys.argv else ():
            print(f"  {file}: {', '.join(sorted(functions))}")
