"""Pictures take a record and an axis and return the axis."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

import somcot
from tests.instances import blocks

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(scope="module")
def result() -> somcot.Result:
    return somcot.distance(*blocks(4, 2, 0.5), discount=0.9)


def test_encoder_and_decoder_show_their_arrays(result: somcot.Result) -> None:
    _, axes = plt.subplots(1, 2)
    for draw, values, ax in zip(
        (somcot.plots.encoder, somcot.plots.decoder), (result.encoder, result.decoder), axes, strict=True
    ):
        assert draw(result, ax=ax) is ax
        np.testing.assert_array_equal(ax.images[0].get_array(), values)
    assert [t.get_text() for t in axes[0].get_xticklabels()][:3] == ["0,0", "0,1", "1,0"]
    plt.close("all")


def test_a_figure_is_made_when_none_is_given(result: somcot.Result) -> None:
    assert somcot.plots.encoder(result).figure is plt.gcf()
    plt.close("all")


def test_many_states_are_labelled_sparsely() -> None:
    walk = somcot.random_walk(60)
    result = somcot.distance(walk, walk, np.zeros((60, 60)), discount=0.9)
    assert len(somcot.plots.encoder(result).get_xticks()) <= 15
    plt.close("all")
