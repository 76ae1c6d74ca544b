"""Labels and numbers as people read them."""

from collections.abc import Hashable

__all__ = ["LONGEST", "figure", "label_text"]

LONGEST = 18


def label_text(label: Hashable, longest: int = LONGEST) -> str:
    """A label as plain text, shortened; not yet escaped.

    Examples
    --------
    >>> label_text(("home", 3)), label_text("x" * 30, 8)
    ('home, 3', 'xxxxxxx…')
    """
    text = ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def figure(value: float) -> str:
    """A number for people: four decimals, or four digits where that would say little.

    Examples
    --------
    >>> figure(0.13), figure(0.00001234), figure(12345.678)
    ('0.1300', '1.234e-05', '1.235e+04')
    """
    return f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.4g}"
