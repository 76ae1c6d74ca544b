"""
Which week changed?
===================

A log over ten weeks, in one file. Each week is held against the first and against the one before, with intervals, and
with p-values that are corrected for looking so often: this is what ``somcot drift log.csv --by week`` does.
"""

import csv
import datetime
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot.data import clickstream
from somcot.readers import split_periods

# %%
# The log: 150 sessions a week in the bundled shop, which was redesigned on the first day of the seventh week.
log = Path(tempfile.mkdtemp()) / "log.csv"
monday, rng = datetime.datetime(2026, 3, 2), np.random.default_rng(4)
with log.open("w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["session", "time", "page"])
    for week in range(10):
        chain = clickstream.chain("may" if week < 6 else "june")
        kernel, first = np.asarray(chain.transition), chain.initial
        for session in range(150):
            at = monday + datetime.timedelta(weeks=week, minutes=int(rng.integers(7 * 24 * 60 - 60)))
            page = int(rng.choice(len(first), p=first))
            while True:
                rows.writerow([f"{week}-{session}", at.isoformat(), clickstream.PAGES[page]])
                if clickstream.PAGES[page] in clickstream.ENDS:
                    break
                page, at = int(rng.choice(len(first), p=kernel[page])), at + datetime.timedelta(seconds=30)
print(*log.read_text().splitlines()[:4], sep="\n")

# %%
# Parted by the calendar, then compared.
weeks = split_periods(log, "week", time="time", sequence="session", state="page", terminated=True)
found = somcot.drift(weeks, discount=0.9)
print(found.sentence())
for change in found.alarms[:3]:
    print(
        f"{change.period} against {change.against}: {change.distance:.3f} [{change.low:.3f}, {change.high:.3f}], "
        f"corrected p {change.adjusted:.3f}"
    )

# %%
# The redesign came in 2026-W16. Where nothing changed, the chance that any week of the page counts is at most 5 %.
found.plot()

# %%
# What made the largest change? ``found.report("drift.html")`` writes all of it as one page.
print(found.result.contributions(4))
plt.show()
