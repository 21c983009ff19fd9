"""Codes of symbolic series: numbered at fit, one number for those that come later."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tsformer.data.codes import CodeBook
from tsformer.data.containers import to_padded


def test_codes_are_numbered_in_their_order_and_padding_is_zero():
    X = [np.array([5, -3, 5]), np.array([100])]
    book = CodeBook().fit(to_padded(X))
    assert book.known.tolist() == [-3, 5, 100]
    assert book.n_codes == 3
    panel = book.transform(to_padded(X))
    assert panel.values[..., 0].tolist() == [[2, 1, 2], [3, 0, 0]]
    assert panel.lengths.tolist() == [3, 1]


def test_padding_is_no_code():
    book = CodeBook().fit(to_padded([np.array([5, 6, 7]), np.array([5])]))
    assert book.known.tolist() == [5, 6, 7], "the zeros past the end of a series are not codes"


def test_codes_not_known_are_one_and_warned_of():
    book = CodeBook().fit(to_padded(np.array([[1, 2, 3]])))
    with pytest.warns(UserWarning, match=r"training data lack, 2 of them, .*: -4, 9"):
        panel = book.transform(to_padded(np.array([[9, 2, -4, 9]])))
    assert panel.values[0, :, 0].tolist() == [0, 2, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        book.transform(to_padded([np.array([1, 2]), np.array([3])]))


def test_what_no_float_can_tell_from_its_neighbour_is_no_code():
    with pytest.raises(ValueError, match=r"whole numbers as codes; got 1e\+30 at series 0, step 1"):
        CodeBook().fit(to_padded(np.array([[1, 1e30]])))


def test_many_unknown_codes_are_cut():
    book = CodeBook().fit(to_padded(np.array([[1, 2, 3]])))
    with pytest.warns(UserWarning, match=r"20 of them, .* 19, \.\.\.$"):
        book.transform(to_padded(np.arange(10, 30)[None]))


@pytest.mark.parametrize("step", ["fit", "transform"])
def test_what_is_not_whole_is_refused_with_its_place(step):
    book = CodeBook().fit(to_padded(np.array([[1, 2, 3]])))
    X = [np.array([1.0, 2.0]), np.array([1.0, 2.0, 0.5])]
    with pytest.raises(ValueError, match=r"got 0\.5 at series 1, step 2\. For measurements use"):
        getattr(book, step)(to_padded(X))
