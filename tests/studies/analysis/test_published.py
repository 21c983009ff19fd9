"""Published accuracies: read strictly, and set beside a study of the same protocol alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tsformer.studies.analysis.published import (
    PROTOCOL,
    published_beside,
    read_published,
)

COMMITTED = Path(__file__).parents[3] / "experiments" / "results" / "published"
HEAD = "dataset,method,protocol,accuracy,source\n"
ROW = "Coffee,ROCKET,default split,0.9,a paper\n"


def written(tmp_path: Path, text: str, name: str = "others.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_a_folder_and_several_give_the_same_rows(tmp_path):
    one = written(tmp_path, f"{HEAD}{ROW}", "one.csv")
    other = written(tmp_path, f"{HEAD}Coffee,NA,default split,1,another paper\n", "other.csv")
    both = read_published([one, other])
    assert both["method"].tolist() == ["ROCKET", "NA"], "a method may be called NA"
    assert both["accuracy"].tolist() == [0.9, 1.0]
    pd.testing.assert_frame_equal(read_published(tmp_path), both)
    pd.testing.assert_frame_equal(read_published([tmp_path, one, str(one)]), both)
    written(tmp_path, f"{HEAD}{ROW.replace('0.9', '0.8')}", "two.csv")
    with pytest.raises(ValueError, match=r"one\.csv, line 2 and .*two\.csv, line 2"):
        read_published(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no .*nowhere\.csv; name a CSV"):
        read_published(tmp_path / "nowhere.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no CSV of published results in the folder"):
        read_published(tmp_path / "empty")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (HEAD, "has no rows"),
        (f"{HEAD}{ROW}{ROW}", r"two published rows of 'ROCKET' on 'Coffee'.*line 2.*line 3"),
        (f"{HEAD}{ROW.replace('0.9', '90.1')}", r"line 2: .*got '90.1'; divide percentages by 100"),
        (f"{HEAD}{ROW.replace('0.9', 'nan')}", r"line 2: .*between 0 and 1; got 'nan'$"),
        (f"{HEAD}{ROW}{ROW.replace('0.9', 'high')}", r"line 3: .*got 'high'$"),
        (f"{HEAD}{ROW.replace('0.9', ' ')}", "line 2: accuracy is empty"),
        (f"{HEAD.replace('source', 'sources')}{ROW}", "'sources': did you mean 'source'"),
        ("dataset,method,accuracy,source\nCoffee,ROCKET,0.9,a\n", "lacks the column 'protocol'"),
        (f"{HEAD}{ROW.replace('a paper', 'a, paper')}", "a row has more cells than there are col"),
        (f"{HEAD}{ROW}Beef,ROCKET,default split,0.9,a, paper\n", "not a CSV of published results"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, text, said):
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=said) as error:
        read_published(path)
    assert str(path) in str(error.value)


def test_a_rounded_share_of_right_answers_is_that_share(tmp_path):
    text = "Coffee,a,default split,0.964286,x\nCoffee,b,default split,0.9643,x\n"
    text += "Coffee,c,default split,0.96,x\nCoffee,d,default split,0.95,x\n"
    text += "Coffee,e,default split,0.970000,x\nNowhere,a,default split,0.333333,x\n"
    found = read_published(written(tmp_path, HEAD + text))["accuracy"].tolist()
    assert found == [27 / 28, 27 / 28, 0.96, 0.95, 0.97, 0.333333]


def fits(**columns: object) -> pd.DataFrame:
    rows = pd.DataFrame({"dataset": ["Coffee", "Beef"], "method": "none", "seed": 0, "score": 0.5})
    return rows.assign(**columns)


def test_only_the_studys_data_sets_and_the_default_split(tmp_path):
    path = written(
        tmp_path,
        f"{HEAD}Wine,ROCKET,default split,0.7,b\nBeef,ROCKET,default split,0.8,b\n{ROW}"
        "Beef,ROCKET,mean of 30 resamples,0.6,b\n",
    )
    found = published_beside(fits(resample=0), path)
    assert found.rows.to_dict("records") == [
        {"dataset": "Coffee", "method": "ROCKET (published)", "score": 0.9, "source": "a paper"},
        {"dataset": "Beef", "method": "ROCKET (published)", "score": 0.8, "source": "b"},
    ]
    assert found.left_out == (
        "1 published results are left out, because their protocol is 'mean of 30 resamples' and "
        "not 'default split'.",
    )
    resampled = published_beside(fits(resample=[0, 1]), path)
    assert resampled.rows.empty
    assert "means over resamples" in resampled.left_out[0]
    with pytest.raises(ValueError, match=r"called 'ROCKET \(published\)'"):
        published_beside(fits(method="ROCKET (published)"), path)


def test_a_misspelt_data_set_is_named(tmp_path):
    rows = "".join(
        f"{name},ROCKET,default split,0.9,a\n" for name in ("Cofee", "BeetleFly", "Site7")
    )
    found = published_beside(fits(), written(tmp_path, f"{HEAD}{rows}"))
    assert found.left_out == (
        "Published results on 'Cofee' are left out, because the study has no such data set: did "
        "you mean 'Coffee'?",
        "There is no published result of the default split on any of the data sets.",
    )
    of_another = f"{ROW}Cofee,HC2,default split,0.9,a\nBeef,HC2,default split,0.9,a\n"
    found = published_beside(fits(), written(tmp_path, f"{HEAD}{of_another}"))
    assert len(found.left_out) == 1, "the other method has the data set that is meant"
    of_the_same = of_another.replace("HC2", "ROCKET")
    found = published_beside(fits(), written(tmp_path, f"{HEAD}{of_the_same}"))
    assert not found.left_out, "nothing is missing that the name could stand for"


def test_the_committed_results_are_tidy():
    table = read_published(COMMITTED)
    assert set(table["protocol"]) == {PROTOCOL}
    assert table.groupby("method").size().min() >= 13
    assert table["source"].str.fullmatch(r"[\w-]+/[\w-]+ [\w/.-]+\.csv").all()
    files = {path.stem for path in COMMITTED.glob("*.csv")}
    assert files == set(table["method"].str.lower()) > {"hc2", "rocket"}, "a file per method"
