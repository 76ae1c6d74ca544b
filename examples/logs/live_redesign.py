"""
A redesign in the middle of a stream
====================================

A monitor watches a web shop live. In the middle of the stream its pages are redesigned. When does the monitor raise an
alarm, which transitions changed, and by how much?
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot.data import clickstream
from somcot.readers import from_table

# %%
# The reference is the recorded month of May. First check that it is stationary.
may = from_table(clickstream.path("may"), sequence="session", time="time", state="page", terminated=True)
print("stationary:", somcot.Monitor.check(may).stationary)


# %%
# The stream: events of twenty concurrent sessions, first as in May, then as in June.
def events(month: str, n: int, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Pages and sessions of n events."""
    chain = clickstream.chain(month)
    kernel = np.asarray(chain.transition).cumsum(axis=1)
    pages, names, last, number = [], [], [-1] * 20, [0] * 20
    for visitor, u in zip(rng.integers(0, 20, n).tolist(), rng.random(n).tolist(), strict=True):
        row = chain.initial.cumsum() if last[visitor] < 0 else kernel[last[visitor]]
        page = min(int(np.searchsorted(row, u, side="right")), chain.n_states - 1)
        pages.append(clickstream.PAGES[page])
        names.append(f"{month}-{visitor}-{number[visitor]}")
        over = clickstream.PAGES[page] in clickstream.ENDS
        last[visitor], number[visitor] = (-1, number[visitor] + 1) if over else (page, number[visitor])
    return pages, names


rng = np.random.default_rng(1)
before, after = events("may", 12_000, rng), events("june", 12_000, rng)
pages, sessions = before[0] + after[0], before[1] + after[1]

# %%
# Feed the monitor. The size of the blocks does not matter; here it is 20 events, for the curve.
monitor = somcot.Monitor(may, discount=0.9, one_false_alarm_per=1_000_000)
curve, sizes = [], []
for k in range(0, len(pages), 20):
    monitor.update(pages[k : k + 20], sessions[k : k + 20])
    curve.append((k + 20, monitor.evidence))
    if k % 1000 == 980 and k > 1000:
        interval = monitor.distance().confidence_interval
        assert interval is not None
        sizes.append((k + 20, interval.low, interval.high, monitor.provisional))
alarm = monitor.alarm
assert alarm is not None
print(alarm)
for moved in alarm.transitions[:3]:
    print(" ", moved)

# %%
# The distance is computed from the events after the alarm. The true distance is known here.
result = monitor.distance()
truth = somcot.distance(clickstream.chain("may"), clickstream.chain("june"), discount=0.9).distance
print(result)
print(f"the true distance, from the first page of a session, is {truth:.3f}")

# %%
figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained")
at, share = np.array(curve).T
top.semilogy(at, np.maximum(share, 1e-7), color="tab:blue")
top.axhline(1.0, color="0.4", linestyle="--", linewidth=1)
top.axvline(12_000, color="0.7", linewidth=1)
top.annotate("redesign", (12_000, 2e-5), xytext=(-6, 0), textcoords="offset points", ha="right", color="0.4")
top.plot(alarm.event, 1.0, "o", color="tab:red")
top.annotate(
    f"alarm, {alarm.event - 12_000} events later", (alarm.event, 1.0), xytext=(8, -14),
    textcoords="offset points", color="tab:red",
)  # fmt: skip
top.set_ylabel("evidence")
for x, low, high, provisional in sizes:
    bottom.plot([x, x], [low, high], color="0.6" if provisional else "tab:red", linewidth=3)
bottom.axvline(12_000, color="0.7", linewidth=1)
bottom.set_ylabel("distance from May, 90 %\n(grey: provisional)")
bottom.set_xlabel("events")
plt.show()
