"""Data of stacked ensembles."""

import pytest

from stacking.ensembles import make_data


@pytest.fixture(scope="session")
def data():
    return make_data(90)


@pytest.fixture(scope="session")
def large_data():
    """More samples than small ensembles can fit, so that a final estimator gains."""
    return make_data(300)
