"""Tables of the study of encodings behind three stems, from rows that are easy to check."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.encodings.by_stem import ENCODINGS, STEMS
from tools import stems

pytest.importorskip("matplotlib", reason='needs the extra "plots"')


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """The n-th encoding gains n hundredths, times 1 to 3 behind a linear stem and 0 elsewhere."""
    rows = [
        (0, dataset, stem, name, 0.5 + d * rank / 100 * (stem == "linear"), 10 * d)
        for d, dataset in enumerate(("ECG200", "GunPoint", "ArrowHead"), start=1)
        for stem in STEMS
        for rank, name in enumerate(ENCODINGS)
        if (d, stem, name) != (3, "patch", "lspe")  # not fitted yet
    ]
    columns = ["seed", "dataset", "stem", "encoding", "accuracy", "n_tokens"]
    table = pd.DataFrame(rows, columns=columns)
    monkeypatch.setattr(stems, "ROWS", tmp_path / "rows.csv")
    table.to_csv(stems.ROWS, index=False)
    return table


def test_ranks_and_gains_count_data_sets_with_all_encodings():
    header, _, first, *_, last = stems.gain_table().splitlines()
    assert "linear (3): rank" in header
    assert "patch (2): rank" in header
    n = len(ENCODINGS)
    best, control = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in (first, last)
    )
    assert best[:3] == [f"`{ENCODINGS[-1]}`", "1.00", f"{0.5 + 0.02 * (n - 1):.3f}"]
    assert best[3].startswith(f"+{0.02 * (n - 1):.3f} [-")
    assert best[4:7] == [f"{(n + 1) / 2:.2f}", "0.500", "+0.000"]
    assert control[:4] == ["`none`", f"{n:.2f}", "0.500", "–"]


def test_an_interaction_with_the_stem_is_found():
    by_question = {line.split("|")[1].strip(): line for line in stems.test_table().splitlines()}
    some, mean = "some gains depend on it more than others", "mean gain depends on the stem"
    assert "p<.001" in by_question[f"{some}, linear or conv stem"]
    assert "p<.001" not in by_question[f"{some}, patch or conv stem"]
    assert "p=.250" in by_question[f"{mean}, linear or conv stem"], "the least for three data sets"
    assert "r = +1.00" in by_question["mean gain and tokens, linear stem"]
    assert "r = -1.00" in by_question["mean gain and training series, linear stem"]
