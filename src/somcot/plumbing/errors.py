"""Classes of the warnings, so that each kind can be silenced or turned into an error on its own."""

__all__ = ["ConvergenceWarning", "DataWarning", "UnseenStateWarning"]


class ConvergenceWarning(UserWarning):
    """A computation stopped short of its accuracy target and something simpler or rougher was returned."""


class UnseenStateWarning(UserWarning):
    """Nothing was recorded about leaving some states, so their behaviour had to be assumed."""


class DataWarning(UserWarning):
    """Recorded data were dropped, contradict each other or look like another kind of data."""
