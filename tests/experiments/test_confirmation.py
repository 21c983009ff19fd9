"""confirmation.py: averages of saved probabilities, the comparison, and one scoring alone."""

import numpy as np
import pandas as pd
import pytest

from experiments.accuracy import confirmation

LABELS = np.array([0, 1, 1, 0])
#: Four members: the first two see the classes of these probabilities of class 0, and so on.
MEMBERS = np.array([[0.9, 0.2, 0.6, 0.4], [0.8, 0.1, 0.6, 0.6], [0.9, 0.9, 0.4, 0.1], [0.6] * 4])
CONVOLUTIONS = np.array([0.7, 0.6, 0.1, 0.7])


def both(p):
    return np.stack([p, 1 - p], axis=-1)


@pytest.fixture
def scored(tmp_path):
    """Rows and probabilities of one problem."""
    accuracies = ((MEMBERS < 0.5) == LABELS).mean(axis=1)
    whole = ((MEMBERS.mean(axis=0) < 0.5) == LABELS).mean()
    rows = [
        {"method": "transformers", "dataset": "P", "accuracy": whole, "commit": "a"}
        | {f"accuracy_{i}": score for i, score in enumerate(accuracies)},
        {"method": "random convolutions", "dataset": "P", "accuracy": 0.75, "commit": "a"},
        {"method": "0.1.0", "dataset": "P", "accuracy": 0.5, "commit": "a"},
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "confirmation.csv", index=False)
    kept = {"transformers": MEMBERS, "random convolutions": CONVOLUTIONS[None]}
    for method, p in kept.items():
        np.savez(tmp_path / f"{method}-P.npz", members=both(p), labels=LABELS)
    return tmp_path


@pytest.fixture
def folders(monkeypatch):
    """Where fits of commit "b", of which none is made, have kept their probabilities."""
    kept_in = []

    def fit(method, dataset, folder):
        kept_in.append(folder)
        folder.mkdir(exist_ok=True)
        np.savez(folder / f"{method}-{dataset}.npz", members=both(MEMBERS), labels=LABELS)
        members = {f"accuracy_{i}": 0.25 for i in range(confirmation.N_MEMBERS)}
        return {"method": method, "dataset": dataset, "accuracy": 0.25, "commit": "b", **members}

    monkeypatch.setattr(confirmation, "fit", fit)
    monkeypatch.setattr(confirmation, "commit", lambda: "b")
    return kept_in


def test_averages_are_those_of_the_probabilities(scored):
    (row,) = confirmation.averages(scored / "confirmation.csv", scored).itertuples(index=False)
    own = dict(zip(confirmation.averages(scored / "confirmation.csv", scored), row, strict=True))
    of_one = ((MEMBERS[0] + CONVOLUTIONS) / 2 < 0.5) == LABELS
    of_four = ((MEMBERS.mean(axis=0) + CONVOLUTIONS) / 2 < 0.5) == LABELS
    assert own == {
        "one transformer": np.mean([0.5, 0.75, 0.5]),
        "four transformers": 0.5,
        "random convolutions": 0.75,
        "0.1.0": 0.5,
        "ensemble of one": of_one.mean(),
        "ensemble of four": of_four.mean(),
    }
    assert of_one.mean() == 1.0, "the two correct each other"


def test_probabilities_that_are_gone_are_no_silent_gap(scored):
    (scored / "transformers-P.npz").unlink()
    with pytest.raises(SystemExit, match=r"transformers-P\.npz is missing"):
        confirmation.averages(scored / "confirmation.csv", scored)


def test_averages_that_were_computed_before_are_kept(scored):
    path = scored / "confirmation.csv"
    before = confirmation.averages(path, scored)
    before.to_csv(scored / "confirmation_averages.csv", index_label="dataset")
    for method in ("transformers", "random convolutions"):
        (scored / f"{method}-P.npz").unlink()
    rows = pd.read_csv(path)
    rows.loc[rows.method == "0.1.0", "accuracy"] = 0.25
    rows.to_csv(path, index=False)
    after = confirmation.averages(path, scored)
    assert after.loc["P", "0.1.0"] == 0.25
    others = before.columns.drop("0.1.0")
    pd.testing.assert_frame_equal(after[others], before[others])


def test_differences_are_paired():
    ours = pd.DataFrame({"one transformer": {"P": 0.9, "Q": 0.7, "R": 0.5}})
    published = pd.DataFrame({"ROCKET": {"P": 0.8, "Q": 0.75}})
    (row,) = confirmation.beside(ours, published).to_dict("records")
    assert (row["problems"], row["better"], row["equal"], row["worse"]) == (2, 1, 0, 1)
    assert row["points ahead"] == pytest.approx(2.5)
    assert row["mean of ours"] == pytest.approx(0.8)
    assert row["worst"] == pytest.approx(-5.0)


def test_a_later_scoring_has_version_0_1_0_of_the_first_if_that_has_it(tmp_path):
    ours, first = pd.DataFrame({"one transformer": {"P": 0.9}}), tmp_path / "first.csv"
    assert confirmation.with_version_0_1_0(ours, first).equals(ours), "there is no first"
    first.write_text("dataset,one transformer\nP,0.1\n")
    assert confirmation.with_version_0_1_0(ours, first).equals(ours), "it lacks that method"
    first.write_text("dataset,one transformer,0.1.0\nP,0.1,0.6\n")
    both = confirmation.with_version_0_1_0(ours, first)
    assert both.loc["P"].to_dict() == {"one transformer": 0.9, "0.1.0": 0.6}


def test_problems_are_scored_once(scored, monkeypatch):
    path, one = scored / "confirmation.csv", [("0.1.0", "P")]
    monkeypatch.setattr(confirmation, "commit", lambda: "a")
    confirmation.check_commit(path, [*one, ("0.1.0", "Q")])
    monkeypatch.setattr(confirmation, "commit", lambda: "b")
    confirmation.check_commit(path, one)  # no fit is missing
    with pytest.raises(SystemExit, match="these problems are scored once"):
        confirmation.check_commit(path, [*one, ("0.1.0", "Q")])
    confirmation.check_commit(scored / "none.csv", one)


def test_a_second_scoring_has_files_of_its_own_and_leaves_the_first_alone(scored, folders):
    first = {file: file.read_bytes() for file in scored.iterdir()}
    problems = scored / "problems.txt"
    problems.write_text("P\n")
    asked = [str(problems), "--out", str(scored), "--methods", *confirmation.METHODS[:2]]
    confirmation.main([*asked, "--scoring", "2"])
    assert folders == [scored / "confirmation_2"] * 2
    assert pd.read_csv(scored / "confirmation_2.csv").commit.tolist() == ["b", "b"]
    (row,) = pd.read_csv(scored / "confirmation_2_averages.csv").to_dict("records")
    assert row["one transformer"] == 0.25
    assert row["ensemble of four"] == 0.5
    assert all(file.read_bytes() == before for file, before in first.items())


def test_of_a_recipe_that_differs_on_few_problems_these_are_scored(scored, folders, capsys):
    """The others have the rows of the scoring before, and need no probabilities."""
    rows = pd.read_csv(scored / "confirmation.csv")
    pd.concat([rows, rows.assign(dataset="Q")]).to_csv(scored / "confirmation.csv", index=False)
    before = pd.DataFrame(
        {"one transformer": 0.4, "ensemble of one": 0.3, "ensemble of four": 0.2}, ["P", "Q"]
    )
    before.to_csv(scored / "confirmation_averages.csv", index_label="dataset")
    problems = scored / "problems.txt"
    problems.write_text("P\nQ\n")
    asked = [str(problems), "--out", str(scored), "--scoring", "2", "--changed", "P"]
    with pytest.raises(SystemExit, match=r"unknown problem of .*'R'"):
        confirmation.main([*asked, "R"])
    for _ in range(2):  # the second time nothing is left to do
        confirmation.main(asked)
        assert folders == [scored / "confirmation_2"] * 3
        after = pd.read_csv(scored / "confirmation_2.csv").set_index("dataset")
        assert after.loc["P", "commit"].tolist() == ["b"] * 3
        assert after.loc["Q", "commit"].tolist() == ["a"] * 3
        averages = pd.read_csv(scored / "confirmation_2_averages.csv", index_col="dataset")
        assert averages["one transformer"].to_dict() == {"P": 0.25, "Q": pytest.approx(0.5833333)}
        assert averages["ensemble of four"].to_dict() == {"P": 0.5, "Q": 0.2}
    with pytest.raises(SystemExit):
        confirmation.arguments(["problems.txt", "--changed", "P"])
    assert "--changed is since the scoring before" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_scoring_that_no_one_can_have_made_is_an_error(number, capsys):
    with pytest.raises(SystemExit):
        confirmation.arguments(["problems.txt", "--scoring", number])
    assert f"--scoring is {number}; the first scoring is 1" in capsys.readouterr().err
