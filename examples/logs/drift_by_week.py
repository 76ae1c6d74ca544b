"""
Which week changed?
===================

A log of ten weeks in one file. Each week is compared with the first and with the one before, with intervals and with
p-values adjusted for multiple comparisons. ``somcot drift log.csv --by week`` does the same.
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
# Split the log into calendar weeks, and compare them.
weeks = split_periods(log, "week", time="time", sequence="session", state="page", terminated=True)
drift = somcot.drift(weeks, discount=0.9)
print(drift.sentence())
for change in drift.alarms[:3]:
    print(
        f"{change.period} against {change.against}: {change.distance:.3f} [{change.low:.3f}, {change.high:.3f}], "
        f"adjusted p {change.adjusted:.3f}"
    )

# %%
# The redesign came in 2026-W16. Without any change, the probability that any week is reported is at most 5 %.
drift.plot()

# %%
# The transitions that contribute most to the largest change. ``drift.report("drift.html")`` writes a full report.
print(drift.result.contributions(4))
plt.show()
