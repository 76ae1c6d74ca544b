"""One table split into several recordings: by a column, or by periods of its times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.checks import check_count
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.plumbing.text import listing
from somcot.readers.tables import Array, Table
from somcot.readers.tables.batches import open_table
from somcot.readers.tables.columns import USUAL, ColumnNames, usual_column
from somcot.readers.tables.event_tables import bin_specs, classified, collected, roles_of
from somcot.readers.tables.numbers_and_times import NumberColumn, moments
from somcot.readers.tables.rows import Columns, Order, TableOptions
from somcot.readers.tables.state_labels import check_binning
from somcot.recorded.recording import RewardSums
from somcot.samples import Samples

__all__ = ["FILE_OPTIONS", "LEAST", "PERIODS", "split_periods", "split_table"]

LEAST = 30  # transitions; smaller groups are left out
FILE_OPTIONS = ("format", "encoding", "delimiter", "lifecycle", "table", "query", "wide", "state_rules")
GroupNames = Sequence[Hashable] | Mapping[str, Sequence[Hashable]]
_ROLES = ("state", "sequence", "time", "reward", "terminated", "time_format")


# --- Periods


def _week(day: date) -> str:
    # ISO weeks: the first days of January may belong to the last week of the year before.
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


class Period(NamedTuple):
    """A named period: how many microseconds a unit has, and the name of a unit by its number since 1970."""

    unit: int
    name: Callable[[datetime], str]
    order: Callable[[datetime], object] = lambda moment: moment


_HOUR, _DAY = 3_600_000_000, 86_400_000_000
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PERIODS: dict[str, Period] = {
    "day": Period(_DAY, lambda moment: moment.date().isoformat()),
    "week": Period(_DAY, lambda moment: _week(moment.date())),
    "month": Period(_DAY, lambda moment: f"{moment.year:04d}-{moment.month:02d}"),
    "quarter": Period(_DAY, lambda moment: f"{moment.year:04d}-Q{(moment.month + 2) // 3}"),
    "year": Period(_DAY, lambda moment: f"{moment.year:04d}"),
    "weekday": Period(_DAY, lambda moment: _WEEKDAYS[moment.weekday()], lambda moment: moment.weekday()),
    "hour": Period(_HOUR, lambda moment: f"{moment.hour:02d}", lambda moment: moment.hour),
}


def _buckets(source: str, column: NumberColumn, by: str) -> tuple[NDArray[np.int64], list[Hashable]]:
    """The period of each row: its number, and the names of the numbers in the order of time."""
    period = PERIODS[by]
    values = column.finish()
    column.replace(values)
    micros, unit = moments(column, values)
    if micros is None:
        example = str(values[0] if len(values) else 0)
        raise ValueError(Note("no-periods", source, column=column.name, example=example, period=by))
    # Distinct units first: names and dates are made once for each instead of once per row.
    known, place = np.unique(micros // period.unit, return_inverse=True)
    when = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(k) * period.unit) for k in known.tolist()]
    if unit is not None:
        first, last = (moment.date().isoformat() for moment in (when[0], when[-1]))
        warn(Note("epoch-times", source, column=column.name, unit=unit, first=first, last=last), DataWarning)
    names = [period.name(moment) for moment in when]
    # Weekdays and hours recur, so their order is not that of time.
    order: list[Hashable] = list(dict.fromkeys(period.name(m) for m in sorted(when, key=period.order)))  # type: ignore[arg-type]
    rank = {name: k for k, name in enumerate(order)}
    return np.array([rank[name] for name in names], dtype=np.int64)[place], order


# --- One table with several processes


def split_table(
    data: object, by: str, *, groups: GroupNames | None = None, least: int = LEAST, **options: Any
) -> dict[Hashable, Samples]:
    """Read a table that contains several processes: one for each value of a column (country, version) or each period.

    Parameters
    ----------
    data : path, frame or Arrow table
        As for `from_table`, an event log as for `from_xes`, or traces as for `from_traces`.
    by : str
        The column that identifies processes; in event logs, for example ``case:NAME``. Or a period: "day", "week"
        (starting on Monday), "month", "quarter", "year", "weekday" or "hour" of the times in the column `time`, in UTC
        if they have a time zone. A column of that name takes precedence. A sequence is split where the column changes,
        and a note says how often; it belongs to the period in which it starts.
    groups : sequence of values or mapping of str to sequences, optional
        The groups to keep, in this order; all by default. A group is a value, several values joined by commas, as in
        ``["basic,trial", "premium"]``, or, in a mapping, a name and a list of values. Values are compared as text.
    least : int
        Groups with fewer transitions are left out, with a `DataWarning` that lists them; refused if they are named in
        `groups`.
    **options
        Options of `from_table`, `from_xes` or `from_traces`, the same for all groups.

    Returns
    -------
    dict of Samples
        In the order of the values; all groups share the states of all.

    Examples
    --------
    >>> log = {"week": [1, 1, 2, 2, 2], "user": [1, 1, 2, 2, 2], "page": ["a", "b", "a", "a", "b"]}
    >>> {week: samples.n_transitions for week, samples in split_table(log, "week", sequence="user", state="page",
    ...                                                               least=1).items()}
    {1: 1, 2: 2}
    >>> list(split_table(log, "week", groups={"both": [1, 2]}, sequence="user", state="page", least=1))
    ['both']
    """
    return _split(data, by, whole=False, groups=groups, least=least, **options)


def _split(
    data: object, by: str, *, whole: bool, groups: GroupNames | None = None, least: int, **options: Any
) -> dict[Hashable, Samples]:
    """The groups of a table; with `whole`, sequences belong to the group of their first row, as for periods."""
    if not isinstance(by, str):
        raise TypeError(f"by: found {by!r}, expected the name of a column, or {', '.join(map(repr, PERIODS))}")
    # What remains in `options` belongs to the rows.
    files = {name: options.pop(name) for name in FILE_OPTIONS if name in options}
    roles_given = {name: options.pop(name, None) for name in _ROLES}
    classifier, bins = options.pop("classifier", None), options.pop("bins", None)
    about = tuple(options.pop("attributes", ()))
    binning = check_binning(options.pop("binning", "quantile"))
    # Every group would be a process with one state.
    if (state := roles_given["state"]) in (by, [by], (by,)):
        raise ValueError(f"by: {by!r} is the state, so each group would have one state; name another column")
    terminated = roles_given.pop("terminated") or False
    table_options = TableOptions(terminated, **options)
    with open_table(data, **files) as table:
        if classifier is not None:
            roles_given["state"] = classified(table, classifier)
        # Of two columns, one is the group and the other must be the state.
        elif state is None and set(table.columns) - {by} and len(table.columns) == 2 and by in table.columns:
            known = usual_column(table, "state")
            roles_given["state"] = known if known not in (None, by) else _other(table, by)
        # A column wins over a period of the same name. Where not all columns are known, any name that is not a period
        # may be a column.
        period = None if by in table.columns or (not table.complete and by not in PERIODS) else by
        moment = _time_column(table, by, roles_given) if period is not None else None
        roles = roles_of(table, terminated=terminated, attributes=about, **roles_given)
        # One long recording belongs to no period as a whole, so it is cut, and does not end there.
        several = roles.sequence is not None or table_options.gap is not None
        whole = whole or period is not None
        if whole and not several and table_options.end is not None:
            raise ValueError(
                f"end: {table.name} is one sequence, which does not end with a period; name the column of sequences"
            )
        # The grouping column is read anyway, and is constant within a group.
        about = tuple(name for name in about if name != by)
        roles = replace(roles, more=about if moment is not None else (*about, by))
        extra = None
        if moment is not None and roles.time != moment:
            extra = NumberColumn(table.name, moment, times=True, place=table.place, time_format=roles.time_format)
            roles = replace(roles, more=(*about, moment))
        columns = _read(table, roles, bin_specs(table.name, roles.state, bins), extra, period)
    if period is None:
        group, labels = columns.more.pop(by).finish()
    else:
        times = extra or columns.time
        assert times is not None
        group, labels = _buckets(table.name, times, by)
    group, order = _complete(table.name, by, columns, group)
    if groups is not None:
        group, labels = _joined(table.name, by, group, labels, groups)
    return _parted(
        table.name, by, columns, (group, labels), table_options, binning, least, whole=whole and several,
        named=groups is not None, order=order,
    )  # fmt: skip


def _joined(
    name: str, by: str, codes: Array, labels: list[Hashable], groups: GroupNames
) -> tuple[Array, list[Hashable]]:
    """The group of each row where several values form one, and the groups; values in none have codes after these."""
    places = {str(label): k for k, label in enumerate(labels)}
    named = _named_groups(groups, places)
    of_value: dict[str, str] = {}
    for group, values in named.items():
        for value in values:
            if value not in places:
                raise ValueError(
                    f"groups: {name} has no value {value!r} of {by!r}; the values are {listing(list(places), 12)}"
                )
            if of_value.setdefault(value, group) != group:
                raise ValueError(f"groups: {value!r} is in {of_value[value]!r} and in {group!r}; put it into one group")
    order: list[Hashable] = [labels[places[g]] if values == [g] else g for g, values in named.items()]
    number = {group: k for k, group in enumerate(named)}
    target = [number[of_value[v]] if v in of_value else len(named) + k for v, k in places.items()]
    return np.array(target, dtype=np.int64)[codes], order


def _named_groups(groups: GroupNames, places: Mapping[str, int]) -> dict[str, list[str]]:
    """The values of each group, as text."""
    if isinstance(groups, (str, bytes)) or not isinstance(groups, (Mapping, Sequence)):
        raise TypeError(
            f"groups: found {groups!r}, expected a list of values, or a mapping of names to lists of values"
        )
    if isinstance(groups, Mapping):
        named = {
            str(group): [str(v) for v in ([values] if isinstance(values, str) else values)]
            for group, values in groups.items()
        }
    else:
        texts = [str(group) for group in groups]
        twice = next((text for text, number in Counter(texts).items() if number > 1), None)
        if twice is not None:
            raise ValueError(f"groups: {twice!r} is named twice; name different groups")
        # A value may itself contain a comma.
        named = {t: [t] if t in places else [part.strip() for part in t.split(",")] for t in texts}
    empty = next((group for group, values in named.items() if not values), None)
    if not named or empty is not None:
        raise ValueError("groups: found none" if not named else f"groups: {empty!r} has no value; name at least one")
    return named


def _other(table: Table, by: str) -> str:
    (other,) = (name for name in table.columns if name != by)
    return other


def _read(table: Table, roles: Any, bins: Any, extra: NumberColumn | None, period: str | None) -> Columns:
    """The columns of a table; a column of times that does not order the rows is read on its own."""
    try:
        # Rows may be ordered by one column and grouped by the times in another.
        if extra is None:
            return collected(table, roles, bins)
        columns = Columns(table, replace(roles, more=tuple(name for name in roles.more if name != extra.name)), bins)
        for batch in table.batches(roles.wanted):
            extra.add(batch[extra.name])
            columns.add(batch)
    except ValueError as error:
        note = error.args[0] if error.args else None
        if period is None or not isinstance(note, Note) or note.code != "missing-time":
            raise
        # The usual remedy, to keep the order of the file, would not tell the period.
        values = {name: note.values[name] for name in ("place", "column")}
        raise ValueError(Note("row-without-period", table.name, period=period, **values)) from None
    return columns


def _complete(name: str, by: str, columns: Columns, codes: Array) -> tuple[Array, Order | None]:
    """The group of every row, and the rows in order where other rows of a sequence had to tell it."""
    if not len(codes) or codes.min() >= 0:
        return codes, None
    order = Order(columns)
    codes = order.filled(codes)
    if codes.min() < 0:
        place = columns.place(int((codes < 0).argmax()) + 1)
        raise ValueError(f"{name}: {place} has no {by!r}; fill it in, or remove the row")
    return codes, order


def _parted(
    name: str,
    by: str,
    columns: Columns,
    groups: tuple[Array, list[Hashable]],
    options: TableOptions,
    binning: str,
    least: int,
    *,
    whole: bool,
    named: bool,
    order: Order | None = None,
) -> dict[Hashable, Samples]:
    """The groups of the rows, on the states that any of them has.

    With `whole`, no sequence is cut; groups that are `named` must be large enough.
    """
    codes, labels = groups
    try:
        # Split first and grouped afterwards, so that all groups have the same states.
        every, order = options.grouped(columns, None if whole else codes, binning, track=True, order=order)
    except ValueError as error:
        if isinstance(error.args[0], Note) and error.args[0].code == "no-step":
            raise _none_left(name, by, least) from None
        raise
    if order.n_cut:
        warn(Note("groups-cut", name, by=repr(by), n=order.n_cut), DataWarning)
    of_episode = codes[order.first_rows]
    parts = {label: np.flatnonzero(of_episode == k) for k, label in enumerate(labels)}
    lengths = np.diff(every.offsets) if every.offsets is not None else np.zeros(0)
    sizes = {label: int(lengths[episodes].sum()) for label, episodes in parts.items()}
    least = check_count("least", least, at_least=0)
    few = {label: n for label, n in sizes.items() if n < least}
    # A group of many rows may have few steps; the reason is otherwise not visible.
    lost = " (sequences belong to the period in which they start)" if whole and options.gap is None else ""
    lost = f" (sequences are split where {by!r} changes)" if order.n_cut else lost
    if few and named:
        label, n = next(iter(few.items()))
        raise ValueError(
            f"groups: {label!s} has {n:,} transitions{lost}, expected at least {least}; join several values: A,B, or "
            "name another group"
        )
    if few:
        shown = ", ".join(f"{label} ({n})" for label, n in list(few.items())[:10])
        more = (f" and {len(few) - 10} more" if len(few) > 10 else "") + lost
        warn(Note("groups-left-out", name, n=len(few), least=least, groups=f"{shown}{more}"), DataWarning)
    # Groups without any step cannot be recordings, whatever the threshold.
    kept = {label: every.take(parts[label]) for label, n in sizes.items() if n >= max(least, 1)}
    if not kept:
        raise _none_left(name, by, least)
    if every.rewards is not None:
        # Rewards are sums over rows, which `take` does not divide among groups.
        numbers = {label: k for k, label in enumerate(labels)}
        kept = {label: replace(s, rewards=_rewards(order, every, codes, numbers[label])) for label, s in kept.items()}
    return _on_seen_states(kept)


def _none_left(name: str, by: str, least: int) -> ValueError:
    return ValueError(f"{name}: no value of {by!r} has {least} transitions; name another column, or record longer")


def _rewards(order: Order, every: Samples, codes: Array, group: int) -> RewardSums:
    """The rewards of the rows of a group."""
    assert order.rewarded is not None
    states, rewards, rows = order.rewarded
    assert rows is not None
    inside = codes[rows] == group
    return RewardSums.of(rewards[inside], states[inside], every.n_states)


def _on_seen_states(groups: dict[Hashable, Samples]) -> dict[Hashable, Samples]:
    """Leave out states that occur only in groups that were left out."""
    some = next(iter(groups.values()))
    seen = np.zeros(some.n_states, dtype=np.bool_)
    for samples in groups.values():
        # States of discarded groups would appear as unvisited in all others.
        seen |= samples.seen
        if samples.initial is not None:
            seen |= samples.initial > 0
    if seen.all():
        return groups
    place = (np.cumsum(seen) - 1).astype(np.int32)
    states = tuple(state for state, kept in zip(some.states, seen.tolist(), strict=True) if kept)
    return {
        label: replace(
            samples,
            states=states,
            now=place[samples.now],
            following=place[samples.following],
            initial=None if samples.initial is None else samples.initial[seen],
            rewards=None if samples.rewards is None else samples.rewards.at(np.flatnonzero(seen).astype(np.int32)),
        )
        for label, samples in groups.items()
    }


def split_periods(
    data: object, by: str, *, time: str | None = None, least: int = LEAST, **options: Any
) -> dict[Hashable, Samples]:
    """Read a table over time: one recording for each period.

    The same as `split_table`, which takes periods too.

    Parameters
    ----------
    data : path, frame or Arrow table
        As for `from_table`.
    by : str
        A column, or a period: "day", "week" (starting on Monday), "month", "quarter", "year", "weekday" or "hour". A
        sequence belongs to the period in which it starts; a table without sequences is one, which is cut where a period
        ends.
    time : str, optional
        As for `from_table`.
    least : int
        Periods with fewer transitions are left out, with a `DataWarning` that lists them.
    **options
        Options of `from_table`.

    Returns
    -------
    dict of Samples
        In the order of time; all periods share the states of all.

    Examples
    --------
    >>> log = {"time": ["2026-05-01", "2026-05-02", "2026-05-03", "2026-06-01", "2026-06-02"], "state": list("aabab")}
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     {month: samples.n_transitions for month, samples in split_periods(log, "month", least=1).items()}
    {'2026-05': 2, '2026-06': 1}
    """
    return _split(data, by, whole=True, time=time, least=least, **options)


def _time_column(table: Table, by: str, roles: Mapping[str, Any]) -> str:
    """The column with the times, for a period that is not a column."""
    time: str | None = roles["time"]
    states = roles["state"]
    listed = ", ".join(table.columns[:12])
    # Attributes of cases are a frequent confusion in event logs.
    close = f"; did you mean 'case:{by}'?" if f"case:{by}" in table.columns else ""
    if by not in PERIODS or close:
        raise ValueError(
            f"{table.name}: there is no column {by!r}, and it is none of {', '.join(PERIODS)}; the columns are "
            f"{listed}{close}"
        )
    if time is not None and time != "file":
        if time not in table.columns and table.complete:
            raise ValueError(f"{table.name}: there is no column {time!r}; the columns are {listed}")
        return time
    # Without the defaults of a format: these may name an order that is not a time.
    taken = {roles["sequence"], roles["reward"], *([states] if isinstance(states, str) else states or ())}
    # A column with another role is not the time, even if its name is usual for times.
    free = [name for name in table.columns if name not in taken]
    column = usual_column(_Bare(table.name, free), "time")
    if column is None:
        usual, rest = ", ".join(USUAL["time"][:3]), ", ".join(free[:12]) or "none"
        raise ValueError(Note("period-without-times", table.name, period=by, usual=usual, columns=rest))
    return column


class _Bare(NamedTuple):
    """Names of columns without the defaults of their format."""

    name: str
    columns: list[str]
    complete: bool = True


_: type[ColumnNames] = _Bare
