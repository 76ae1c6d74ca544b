"""The catalogue of notes: for each code its text, how much it matters, and an explanation.

``{name}`` is a value and ``[[option=value]]`` an option or a function, which the reader's side spells; see
`somcot.plumbing.notes`. A text begins after "about: ", so with a small letter.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = ["CATALOGUE", "Kind", "Severity"]


class Severity(enum.IntEnum):
    """How much a note matters; notes are shown in this order."""

    ERROR = 0  # nothing was computed
    DOUBT = 1  # the number may be wrong
    CAUTION = 2  # the interval or the test may be off
    INFO = 3  # good to know


class Kind(NamedTuple):
    """A row of the catalogue."""

    severity: Severity
    text: str
    explained: str


ERROR, DOUBT, CAUTION, INFO = Severity

# Order within a group does not matter; `docs/reference/notes.md` sorts by severity and code.
CATALOGUE: dict[str, Kind] = {
    # Recordings and the chains estimated from them
    "raw-steps": Kind(DOUBT, "raw steps of episodes are replayed as if they were samples of the discounted occupancy; "
        "distances are wrong, only rankings may be right",
        "The algorithm expects transitions drawn at random times, late ones less often. Raw steps weigh all equally, "
        "which is another problem. Leave out order to draw from the chain fitted to the episodes instead."),
    "stationary-not-unique": Kind(CAUTION, "the stationary distribution is not unique, {n} recurrent classes exist; "
        "the one with most transitions is used ({percent:.0f} %): {states}; record longer, or pass the distribution",
        "The estimated chain has several sets of states that it never leaves, and each has a stationary distribution. "
        "The recording decides which is used, so two may use different sets. Record longer, or pass initial."),
    "stationary-rare": Kind(CAUTION, "the stationary distribution is on states with only {percent:.0f} % of the "
        "recorded transitions ({states}); none of them leads back to the rest; record longer, or pass the distribution",
        "All stationary probability is on states that few transitions reached, so the distance ignores most of the "
        "recording. Record longer, or start from the recorded first states."),
    "stationary-apart": Kind(CAUTION, "the long-run states of x are {x}, those of y {y}, and one process left the ones "
        "for the others for good; if the other may do so too, the two can be equal; record longer, or pass initial",
        "Few recordings cannot tell whether the other would leave as well. Record longer, or pass the first states."),
    "flow-fit-failed": Kind(DOUBT, "the flow-constrained fit stopped ({status}) after {iterations} steps with flow "
        "violation {violation:.2g}; counts divided by row sums are used instead, which ignore how often states are "
        "visited; give more samples or raise max_iterations",
        "Independent samples of the occupancy determine the chain through flow constraints, and Newton's method did "
        "not reach them. The raw frequencies that are used instead are biased. More samples usually help."),
    "too-short-for-order": Kind(INFO, "{share} episodes have fewer than {least} states and were dropped",
        "A step between tuples of k consecutive states needs k + 1 states. Worry if short episodes are many: what "
        "remains is then a selection of long ones."),
    "outside-connected": Kind(INFO, "{share} steps are outside the largest connected set and were left out",
        "Only states that lead to each other have a common stationary distribution. States that were entered and never "
        "left, or left and never entered again, are dropped. Worry if many steps are lost; a shorter lag keeps more."),
    "short-trajectories": Kind(INFO, "{share} trajectories have fewer than two states, hence no step, and were dropped",
        "A trajectory needs two states to have a transition. If short ones are many, check how they were cut."),
    "samples-in-order": Kind(DOUBT, "{share} transitions begin where the one before ended, so they look like steps of "
        "a trajectory, not independent samples of the occupancy; leave out discount here and pass it to distance",
        "With a discount, transitions are taken as independent samples of the discounted occupancy. These are in "
        "order, which such samples never are. Make Samples without a discount and pass it to distance."),
    "assumed-transitions": Kind(CAUTION, "no recorded path leads from the initial states to states that were sampled; "
        "{n} transition(s) (was|were) assumed, into {states}; record more samples",
        "The samples contain states that cannot be reached by any recorded path. The most plausible missing "
        "transitions were added with small probability. More samples replace these guesses."),
    "never-seen": Kind(INFO, "{n} state(s) never seen in the data (is|are) kept as absorbing: {states}",
        "The list of states names some that the recording does not contain. They have no effect on the distance, "
        "because nothing leads to them. Nothing needs to be done."),
    "initial-never-seen": Kind(DOUBT, "{n} initial state(s) never seen in the data (is|are) taken as absorbing: "
        "{states}",
        "The initial distribution starts in states that the recording does not contain. A process that starts there "
        "stays there forever, which changes the distance. Check the labels of the initial distribution."),
    "never-left": Kind(CAUTION, "{n} state(s) entered but never left (is|are) taken as absorbing: {states}; pass "
        "[[terminated=True]] for episodes that end there, or record longer",
        "The recording ends in these states, so what follows them is unknown. Taking them as absorbing is right if "
        "sequences really end there, and you can say so. If the recording was merely cut off, record longer."),
    "never-left-open": Kind(CAUTION, "{n} state(s) entered but never left (is|are) taken as absorbing: {states}; "
        "record longer, or pass [[end='left']], say, if finished episodes lack a final state",
        "The recording ends in these states, so what follows them is unknown; other episodes end in states that are "
        "left elsewhere. A final state of its own lets every episode end wherever it was. If the recording was merely "
        "cut off, record longer."),
    "ended-but-left": Kind(CAUTION, "{n} state(s) (ends|end) episodes but (is|are) left in others, so not taken as "
        "absorbing: {states}; pass [[end='left']], say, instead of [[terminated]], to give episodes a final state",
        "Episodes were declared as ended in states that other episodes go on from. An absorbing state is never left, "
        "so the declaration was ignored for these states. A final state of its own expresses what was meant."),
    "starts-guessed": Kind(CAUTION, "{share} steps do not begin where the step before ended, so the initial states are "
        "guesses; pass initial, or the steps in order of time, with terminated and truncated",
        "Transitions without episodes are taken as one sequence, and a gap as the start of another. With this many "
        "gaps nearly every transition counts as a start. Pass the initial distribution, or the steps in order of time "
        "and which of them end an episode."),
    "short-pieces": Kind(INFO, "{share} episodes or pieces have fewer than two rows and were dropped",
        "An episode needs two rows to have a step. Pieces arise where missing values cut an episode. Worry if many are "
        "dropped: missing values are then frequent."),
    # Costs
    "different-lags": Kind(DOUBT, "steps of {x} and of {y} frames are compared; use one lag, unless a step takes the "
        "same time in all recordings",
        "A step of a longer lag takes more time, so the processes would be compared at different speeds. Different "
        "lags are right only for frames of different length."),
    "numbers-as-states": Kind(DOUBT, "states are compared by their numbers, and x has {n_x}, y {n_y}; unless both were "
        "put into the same clusters, pass the cost between their centres: costs.euclidean(centres_x, centres_y); if "
        "they were, name the states with states=",
        "Clusterings number their states arbitrarily, so equal numbers need not mean equal states. Pass a cost between "
        "cluster centres. States that were named with states= are compared without this note."),
    "numbered-nodes": Kind(DOUBT, "both sides are graphs with numbered nodes, and 'labels' compares the numbers; "
        "unless equal numbers mean the same node, compare 'degree', 'neighbourhood' or an attribute ('attribute:NAME')",
        "Node numbers usually come from the order of a file. If they do, comparing them is meaningless and the "
        "distance is arbitrary. Use a cost that looks at the structure, or at an attribute of the nodes."),
    "no-shared-nodes": Kind(DOUBT, "the two graphs have no node name in common, so by 'labels' all pairs cost 1, and "
        "the distance is 1; compare 'degree', 'neighbourhood' or an attribute ('attribute:NAME')",
        "The cost by labels is 0 only for equal names. With no name in common the distance is 1 whatever the graphs "
        "do. Use a cost that looks at the structure, or at an attribute of the nodes."),
    "edge-attributes-ignored": Kind(INFO, "attributes of edges are not compared: {names}; if they matter, write them "
        "into the nodes, or name a weight: [[weight=NAME]]",
        "A walk uses the edges and their weights. Labels of edges, such as kinds of bonds, change nothing unless they "
        "become weights, or attributes of nodes placed on the edges."),
    "labels-look-alike": Kind(DOUBT, "no label is shared, but {one} and {other} look alike; give both the same type",
        "Labels such as 1 and '1' differ for Python, so every pair of states costs 1. Usually one side was read as "
        "text and the other as numbers. Convert one of them."),
    "features-differ": Kind(CAUTION, "features of {n} state(s) that both recordings have differ by more than their "
        "noise, such as {state}: {mean_x:.3g} against {mean_y:.3g}; they were pooled; [[costs.from_features(a, b, "
        "pool=False)]] counts such differences",
        "Mean rewards of a state are pooled over both recordings, which removes noise where the reward is the same. "
        "Here the rewards themselves differ significantly, and pooling hides that. Use pool=False if this difference "
        "belongs to the distance."),
    "features-differ-in-test": Kind(CAUTION, "features of {n} state(s) that both recordings have differ by more than "
        "their noise, such as {state}: {mean_x:.3g} against {mean_y:.3g}; the test is of the steps alone; "
        "[[somcot.distance]] with [[costs.from_features(a, b, pool=False)]] counts such differences",
        "The permutation test compares the sequences of states. Rewards that differ in the same state are a difference "
        "that it cannot see. A large p-value therefore does not mean that rewards agree."),
    "rewards-of-cells": Kind(CAUTION, "rewards are compared as means over {n} shared cells, and the interval does not "
        "contain the error of the cells; [[n_cells]] makes more",
        "Real vectors are put into cells, and each cell gets the mean reward on leaving it. Rewards that vary within a "
        "cell are smoothed, so the distance depends on the number of cells. Compare the result for other numbers."),
    # The estimate
    "too-alike": Kind(DOUBT, "the recordings are more alike than independent ones can be; are these the same sessions?",
        "Two independent recordings of the same process differ by chance. These differ by less, as copies or "
        "overlapping exports do. Check that the two files hold different sessions; interval and test assume it."),
    "no-shared-states": Kind(DOUBT, "these recordings have no state name in common, so they differ whatever the states "
        "do, and the p-value says no more; give equal states equal names, or see the interval of [[somcot.distance]]",
        "The test permutes episodes between the recordings, and names alone tell them apart. Its p-value is small for "
        "this reason only. Rename the states, or use a cost between them and look at the interval of the distance."),
    "overlapping-steps": Kind(CAUTION, "steps overlap ([[sliding=True]]), so they are not independent and the "
        "{effect}; read the trajectories without [[sliding]]",
        "A sliding window counts every frame several times. The formulas for errors assume independent steps, so they "
        "promise more than the data hold. Use overlapping steps for estimates only, not for intervals and tests."),
    "memory": Kind(CAUTION, "the next state clearly depends on more than the last one (somcot.markov_order), so the "
        "{effect} and the distance is that of first-order Markov approximations; use [[units='sequences']], or make "
        "words the states: [[samples.with_order(2)]]",
        "A permutation test rejects that the last state alone determines the next. The distance compares the fitted "
        "first-order chains, and exchanging single transitions makes errors too small. Whole sequences correct the "
        "errors; pairs of states as states correct the model."),
    "memory-episodes": Kind(CAUTION, "the next state depends on more than the last one (somcot.markov_order): the "
        "distance compares what follows what, averaged over visits; above its minimum the processes differ, at its "
        "minimum they may still differ",
        "A permutation test rejects that the last state alone determines the next. The distance is that of the "
        "first-order projections of the processes (docs: statistics, What the number is). Interval and test use whole "
        "sequences and hold all the same. In Python, samples.with_order(2) makes pairs of states the states, which "
        "keeps more of the memory."),
    "few-visits": Kind(CAUTION, "few steps were recorded out of {counts}, although the distance depends on them: the "
        "{effect}; record more episodes, or episodes that start there",
        "Some states are visited often in the discounted process, but few transitions out of them were recorded. The "
        "normal approximation behind the interval is poor for so few. Record more episodes that pass these states."),
    "too-few-data": Kind(CAUTION, "too few data for this horizon (saturation {saturation:.1f}, at most 3 is safe): "
        "{wider}the estimate may still be too high; record about {times:.2g} times as much, or lower the discount",
        "Errors of the estimated rows add up over the horizon 1 / (1 - discount). Above a saturation of 3 the bias "
        "correction is no longer reliable. Record more, or use a lower discount, which looks less far ahead."),
    "near-minimum": Kind(CAUTION, "the distance is not distinguishable from its minimum; it was corrected towards it",
        "Sampling noise alone would give recordings that are about this far apart. The estimate was corrected towards "
        "the minimum, and its interval includes it. Record more if small differences matter."),
    "near-minimum-data": Kind(CAUTION, "the distance is not distinguishable from its minimum; about {times:.2g} times "
        "as many data would show a distance of {size:.2g}",
        "Sampling noise alone would give recordings that are about this far apart. The estimate was corrected towards "
        "the minimum, and its interval includes it. Noise falls with the square root of the amount of data; the "
        "distance in the note is half of the upper end of the interval."),
    "few-long-recordings": Kind(CAUTION, "only {n} recording(s), so first states say little about the initial "
        "distribution; both start in their stationary distribution instead; pass [[initial=...]] for another one",
        "A few first states are no initial distribution, and a distance that starts from them has no meaningful "
        "interval. Long recordings determine their stationary distribution well. They are cut into blocks, which are "
        "permuted and halved in place of sequences."),
    "few-sequences": Kind(CAUTION, "only {n} sequence(s), whose first states hardly determine the initial "
        "distribution; the interval does not cover its error; record at least {least}, or pass [[initial=...]]",
        "The initial distribution is estimated from the first states, and there are few of them. Blocks of the "
        "recording are permuted and halved in place of sequences, which says little about where it begins."),
    "small-pilot": Kind(CAUTION, "halves of the pilot differ: the planned power has a standard error of {error:.2g}; "
        "record a pilot of about {more:,} sequences, not {n:,}",
        "A plan takes the pilot for the process. Memory and long sequences that it lacks add to this error."),
    "few-tasks": Kind(CAUTION, "pairs of only {n} tasks, so the interval is rough and says nothing about other tasks; "
        "run at least {least} tasks on both sides, or use [[strata=...]] if these are all the tasks there are",
        "Errors of paired comparisons come from how tasks differ, which few tasks hardly show, however often each was "
        "run. The permutation test remains valid. With strata, tasks are taken as given and their runs halved."),
    "blocks-dependent": Kind(CAUTION, "the recordings are too short for their memory: blocks of {length} steps still "
        "depend on each other, so interval and test may promise too much; record longer",
        "Few long recordings are cut into blocks, which should be nearly independent. Here the variance of the rows "
        "still grows with the length of the blocks, as with regimes that last as long as a block. Record longer, or "
        "many separate sequences."),
    "ignored-option": Kind(INFO, "deprecated and ignored since version 0.3: it belonged to the former rule for "
        "intervals; leave it out",
        "Estimates and intervals now come from permutations and half-samples of whole sequences. Options of the former "
        "rule have no effect and will be removed in version 0.4."),
    "deprecated-option": Kind(INFO, "deprecated since version 0.3; use {instead}",
        "The option still works and will be removed in version 0.4, the release after next."),
    "deprecated-function": Kind(INFO, "deprecated since version 0.3; use {instead}",
        "The function still works and will be removed in version 0.4, the release after next."),
    "fitted-model": Kind(DOUBT, "fitted to data but taken as known, so the distance is biased upwards and lacks this "
        "sampling error; compare trajectories ([[readers.from_dtrajs]]) or posteriors ([[msm.posterior_distances]])",
        "Two models of one process differ by the errors of both. Only the trajectories, or draws from the posterior, "
        "tell how large these are. An interval, if there is one, contains the error of the other side alone."),
    "no-interval": Kind(INFO, "method {method} gives no interval; [[method='auto']] does",
        "Only the default estimate has a standard error. The other methods return the number alone. Drop the method to "
        "get an interval, or drop confidence."),
    "no-correction": Kind(CAUTION, "[[{clock}]]: the distance of the estimated chains, neither corrected for bias (too "
        "high near 0) nor with an interval; a discount below 1 has both",
        "Bias correction and intervals exist for discounted distances. Here the fitted chains are compared as if they "
        "were known, so two recordings of one process have a positive distance. Compare with the distance of two "
        "halves of one recording to see how large that is."),
    "average-from-data": Kind(CAUTION, "[[discount=1]]: estimated at discount {discount:.4f}; {mixing}transitions "
        "missing from the data can change the long-run average",
        "The long-run average is discontinuous in the chain: one rare transition can connect two sets of states. The "
        "estimate therefore uses a discount close to 1. Worry if that many steps are about the recording's length."),
    "few-permutations": Kind(CAUTION, "{episodes} episodes can be assigned to {groups} groups in {ways} ways only, so "
        "the p-value cannot fall below {least:.2g}; record more episodes, or cut long ones into pieces",
        "The test compares the recordings with permutations of whole episodes. With so few permutations even the "
        "clearest difference is not significant. More episodes, also as pieces of long ones, give more permutations."),
    # Real vectors
    "few-distinct-points": Kind(INFO, "there are only {n} distinct points, and each is a cell of its own; for labels, "
        "Samples.from_trajectories needs no cells",
        "Vectors are put into cells, and here every distinct vector gets its own. The recording probably holds labels "
        "or rounded numbers. Reading them as labels is simpler and exact."),
    "approximate": Kind(DOUBT, "the distance is approximate{no_interval}: {reason}",
        "No map between the two systems was confirmed, and what else could give the distance is not reliable here, for "
        "the reason in the note. The number is the best available, without bounds and without an interval. Take the "
        "advice in the note, or use the number only to rank pairs."),
    "approximate-pair": Kind(DOUBT, "an approximation without an error bound: {reason}",
        "This pair of recordings of real vectors has a distance, but no error bound and no interval. Its reason is "
        "that of the note approximate. Use such cells of a matrix for ranking only."),
    "approximate-pairs": Kind(DOUBT, "{share} pairs are approximations without an error bound and have no interval",
        "These pairs of recordings of real vectors have no error bound, so their cells have no interval. The reasons "
        "of the matrix say why, pair by pair. Use such cells for ranking only."),
    "former-field": Kind(INFO, "{name}: deprecated, only results of former versions have it; result.continuous.map and "
        ".route say where the distance comes from",
        "Distances between recordings of real vectors do not come from cells any more, so fields about the error of "
        "cells are empty. The map between the two, its tests and the route to the distance replace them."),
    "same-recording": Kind(INFO, "both recordings are the same",
        "The two sides hold the same vectors, so the distance is 0. This is what a comparison of a file with itself "
        "gives. Check the file names if you expected two recordings."),
    "failed-pairs": Kind(DOUBT, "{n} pair(s) (has|have) no distance, {which}: {reason}",
        "These cells are NaN, and `status` gives the reason of each. Leave out the process that causes them."),
    # Solvers and SOMCOT
    "not-solved": Kind(DOUBT, "not solved after {sweeps} sweeps; the bracket shows how close it is",
        "The iteration stopped at its limit. The bounds that are returned are valid, but the number inside may be far "
        "from the solution. Raise max_sweeps."),
    "gradient-not-converged": Kind(DOUBT, "stopped after {sweeps} sweeps, residual {residual:.1g}; lower the discount",
        "Values and gradients are those of an iteration that has not converged. In training this happens for discounts "
        "very close to 1. Use a smaller discount, or the exact solver for a single problem."),
    "checkpoint-not-written": Kind(INFO, "{path}: {reason}; the run continues without this file",
        "The disk refused the checkpoint file. The computation is not affected, but an interruption would lose it. "
        "Free some space, or name a file elsewhere."),
    "not-converged": Kind(DOUBT, "the run has not converged: it gives {distance}, while the chains counted from its "
        "own transitions have distance {counted}",
        "The transitions that a SOMCOT run consumed determine two chains, whose exact distance is known. The run is "
        "further from it than sampling noise explains. Take more steps, or use the counted distance."),
    "wide-metric": Kind(DOUBT, "entries of the metric may be off by up to {width:.1g} of the {unit}, the width of the "
        "widest bracket; floating point has no more digits for processes that settle so slowly",
        "Rounding errors grow with the time that a process takes to settle. If it hardly ever leaves a part of its "
        "states, at discounts close to 1, few digits are left. The table is right up to the width in the message."),
    "counted-not-solved": Kind(INFO, "the counted chains were not solved (about {seconds:.0f} s); the bounds are the "
        "range of the cost",
        "Normally a run is checked against the exact distance of the chains it has seen. These are too large for that "
        "check. Nothing is known about how close the run is."),
    "iterations-cut": Kind(CAUTION, "{done:,} of {planned:,} saddle iterations were run; all take {seconds:.0f} s",
        "The problem is so large that the iterations SOMCOT wants would take minutes, and so would the exact distance "
        "that would show whether fewer are enough. Merge states, or use the corrected estimate (method='auto')."),
    "dual-step-small": Kind(DOUBT, "dual step too small: the estimate is {where} while the constraints are violated by "
        "{violation:.2g} in total; raise dual_step ({relative}), lower primal_step or take more steps",
        "The multipliers of the constraints grow too slowly, so the result is not yet a valid coupling, and below the "
        "distance. Follow the advice, or leave the step sizes to the automatic rule."),
    "dual-step-large": Kind(DOUBT, "dual step too large: at such rates the estimate tends to end above the distance; "
        "lower dual_step ({relative}) or let primal_step decay",
        "Large dual steps overshoot, and the average rises above the distance. Leave steps to the automatic rule."),
    "too-few-steps": Kind(DOUBT, "too few steps for the size: {steps:,} steps for {n_x} x {n_y} states, at least "
        "{advised:,} are advisable",
        "A pair of states must be visited many times to learn its part of the coupling. Run longer, or resume it."),
    "constraints-violated": Kind(CAUTION, "the constraints are violated by {violation:.2g} in total; take more steps",
        "The averaged coupling does not have the right marginals yet. Its cost is therefore not the cost of a "
        "coupling. Take more steps."),
    "unseen-in-stream": Kind(INFO, "{n} state(s) (was|were) never seen: {states}; their coupling is a guess",
        "The streams never visited these states, so nothing was learned about them. The distance is not affected if "
        "they are never visited at all. Rows of encoder and decoder for them mean nothing."),
    # Many processes, periods, streams
    "client-lost": Kind(INFO, "{reason}; the rest is computed in this process",
        "The cluster has no workers left, or its client was closed. The result is the same, but takes longer."),
    "groups-left-out": Kind(INFO, "{n} group(s) with fewer than {least} transitions (was|were) left out: {groups}",
        "Groups with very few transitions say nothing about a process. They are named with their numbers of "
        "transitions. Choose another column, or longer periods, if they matter."),
    "periods-left-out": Kind(INFO, "{n} period(s) with fewer than {least} transitions (was|were) left out: {periods}",
        "Periods with very few transitions cannot be compared. They are named with their numbers of transitions. "
        "Choose longer periods if they matter."),
    "ends-not-in-stream": Kind(DOUBT, "the reference ends in {states}, and no event of the stream is there: sequences "
        "never end, or an alarm is about that alone; if ends are no events, pass end= and timeout=, so that silence "
        "ends a sequence",
        "Sequences of the reference end in a state that the stream never reports. The monitor waits for their ends, or "
        "takes their absence as a change. Tell it how sequences end in the stream: end= names the state, timeout= how "
        "long silence lasts."),
    "small-reference": Kind(CAUTION, "the new reference has {n} transitions; it will hardly show small changes",
        "A monitor compares the stream with its reference, and few transitions leave the reference uncertain. Large "
        "changes are still detected. Accept later, when more transitions have arrived."),
    "few-reference-sequences": Kind(CAUTION, "the reference has {n} sequences; it will only show large changes",
        "Whole sequences are ranked among those of the reference. The guarantee on false alarms holds for any number "
        "of them, but few show little: record more sequences, at least 50 and better some hundreds."),
    "reference-changes": Kind(DOUBT, "its later part is not like its earlier one (from about event {since:,} on: "
        "{moved}); a monitor will raise alarms about that; use a shorter, more stable recording",
        "A reference must itself be stable, and this one is not: a monitor of its first half raises an alarm on its "
        "second. Alarms about a stream would then be meaningless. Use a part of the recording without such a change."),
    "provisional": Kind(INFO, "provisional: no alarm; this is the distance of the last {n:,} transitions",
        "Without an alarm nothing shows that the process has changed. The distance describes the current window and is "
        "mostly noise. Wait for an alarm before you rely on it."),
    "provisional-fresh": Kind(CAUTION, "provisional: {share} fresh transitions since the alarm, so those that raised "
        "it are used, which tends to overstate the distance",
        "Transitions that raised an alarm are by selection more extreme than the process. Until enough new ones have "
        "arrived they are used all the same. Ask again later for an estimate without this bias."),
    # Reading files
    "rows-sorted": Kind(INFO, "{n:,} row(s) (was|were) out of time order within their sequence; sorted by time",
        "The rows of some sequences were not in order of time. They were sorted, which is right for event logs. Check "
        "the time column if the file should have been in order."),
    "equal-times": Kind(INFO, "{n:,} row(s) (has|have) the same time as the one before; the file's order is kept",
        "Rows at the same moment have no order of their own. The order of the file was used. If the clock is coarse, "
        "some transitions may be reversed."),
    "equal-times-copies": Kind(CAUTION, "{n:,} row(s) (has|have) the same time as the one before in the sequence; the "
        "order in the file is kept; {copies:,} of them have the same state too: if they are duplicates, remove them",
        "Rows with the same sequence, time and state are probably duplicates. Each adds a transition from a state to "
        "itself, which changes the chain. Remove duplicates before reading."),
    "spellings": Kind(CAUTION, "{n} states differ only in {how}: {states}; pass [[tidy=True]] to merge them",
        "Labels that look the same are different states if a letter or a blank differs. The process then seems to have "
        "more states than it has. Merge them, unless the difference is meant."),
    "odd-quotes": Kind(CAUTION, "an odd number of quotation marks; if one is never closed, rows are lost",
        "A quotation mark that is opened and never closed swallows all rows up to the next one. A stream cannot be "
        "read again to find out. Save the data to a file and read that, which checks it."),
    "lifecycle-left-out": Kind(INFO, "{share} events are not {lifecycle} and were left out: {kinds}{lost}; pass "
        "[[lifecycle='all']] to keep them",
        "Event logs record when an activity was scheduled, started and completed. Only completions are kept by "
        "default, so that each activity counts once. Keep all if start and completion are different states for you."),
    "repeated-cases": Kind(INFO, "{n:,} case name(s) (belongs|belong) to more than one trace, such as {case} (line "
        "{line}); each is taken as one sequence, in order of time",
        "Traces with the same case name were joined, which is right if the log was written in parts. If names were "
        "used again for other cases, rename them."),
    "empty-traces": Kind(INFO, "{n:,} trace(s) (has|have) no event",
        "A trace without events says nothing. They were skipped. Worry only if the log should have none."),
    "lag-not-applicable": Kind(INFO, "{source} holds a chain, which has no frames; lag and sliding are ignored",
        "Lag and sliding say how frames of a trajectory become steps. The file holds a transition matrix, whose step "
        "is fixed. Raise the matrix to a power if you need a longer lag."),
    "single-rows": Kind(INFO, "{share} sequences have a single row, hence no step, and were dropped",
        "A sequence needs two rows to have a transition. If single rows are many, check the sequence column."),
    "mostly-single-rows": Kind(CAUTION, "{share} sequences have a single row, hence no step, and were dropped; if "
        "{column!r} numbers rows instead of identifying sequences, name another column: [[sequence=COLUMN]]",
        "A sequence needs two rows to have a transition. If most have one, the wrong column was probably taken."),
    "one-sequence": Kind(CAUTION, "no column that identifies sequences was recognised, so all rows are one sequence; "
        "if one of {columns} does, name it: [[sequence=COLUMN]]",
        "Then the last row of one user is followed by the first of the next. This is right for a single recording."),
    "constant-sequence": Kind(INFO, "column {column!r} has the same value in all rows, so they are one sequence; if "
        "one of {columns} identifies sequences, name it: [[sequence=COLUMN]]",
        "This is right for a single recording. Otherwise, the column describes all sequences together."),
    "untried-actions": Kind(CAUTION, "{share} actions were never tried, the first in state {state} action {action}; "
        "they are assumed to stay there and earn nothing",
        "A decision process needs every action in every state. Actions without data are taken as useless, which makes "
        "policies that use them look bad. Record episodes that try them."),
    "last-step-unknown": Kind(INFO, "the last step of {share} episodes is left out: what followed is not stored",
        "The dataset stores the observation before each action, and for episodes that were merely stopped not the one "
        "after the last action. One step of each such episode is lost. Nothing needs to be done."),
    "states-not-in-model": Kind(CAUTION, "it lacks {share} recorded states, the first {state}; its policy has no "
        "action there, so what follows counts as the worst",
        "A policy of the model is defined on the states of the model. What it earns after a state that the model lacks "
        "is unknown, even if the recording has steps from there. Add them, or give equal states equal labels."),
    "ends-not-stored": Kind(CAUTION, "found no flags of steps that terminated, such as terminals; no episode is taken "
        "to have ended, and a new one begins only where a step does not begin where the one before ended",
        "Without these flags the states in which episodes end have nothing after them, and are taken to stay where "
        "they are or to go on as after a reset. Values and initial states may then be wrong. Store the flags with the "
        "steps (terminals and timeouts, or dones)."),
    "ends-at-one-length": Kind(CAUTION, "all {n} episodes end after {length} steps, and are taken to have terminated; "
        "if a time limit cut them off, pass timeouts too",
        "Episodes that terminate usually have various lengths, unlike those cut off."),
    "other-ends": Kind(DOUBT, "ends in {state}, the other side in the state 'terminated', so equal ends differ; read "
        "both in the same way, or drop the last states: Samples.from_trajectories(..., end='terminated')",
        "Readers of environments let an episode end in a state of its own, which replaces its last observation. Own "
        "trajectories end in that observation, unless it is left out."),
    "untried-pairs": Kind(INFO, "{share} pairs of state and action were never tried; the estimate takes them to do "
        "what they do on the other side, and the upper end of an interval allows them any reward from {low:.4g} to "
        "{high:.4g}; pass reward_range if more is possible",
        "Nothing is known about such pairs. If neither side tried them, states are not compared by them. By default, "
        "rewards may be what they were elsewhere: an interval misses if an untried action pays more. Record steps that "
        "try them if they matter."),
    "plugin-metric": Kind(CAUTION, "the process is estimated from {n:,} transitions, and noise makes states and "
        "processes look farther apart than they are; [[mdp.distance]] corrects the distance between two processes",
        "The metric and its bounds hold for the estimated tables. Sampling noise in the tables adds to every distance, "
        "most where actions were tried a few times only. Record more, or compare whole processes with mdp.distance."),
    "plugin-states": Kind(CAUTION, "the chain is estimated from {n:,} transitions, and noise makes states look farther "
        "apart than they are; [[somcot.distance]] corrects the distance between two recordings",
        "Sampling noise in the rows of the estimated chain adds to every distance. Record more, or use distance."),
    "counted-in-files": Kind(INFO, "{size:.1f} GB, so transitions are counted file by file and episodes are not kept; "
        "tests permute single transitions, not episodes",
        "A folder of this size is reduced to transition counts. Distances and intervals need no more. Tests and errors "
        "that rely on whole episodes are not available; read a part of the folder for those."),
    "rare-states-joined": Kind(INFO, "{n:,} rare states are merged into one, {other} ([[top={top}]])",
        "Only the most frequent states are kept, as requested. Differences among the others do not count."),
    "numbers-as-text": Kind(INFO, "states are numbers in {numbers} and text in {texts}; the numbers are taken as text",
        "Labels 1 and '1' would never be equal. The numbers were converted, so that equal spellings mean equal states. "
        "Check that both files number their states in the same way."),
    "no-shared-labels": Kind(DOUBT, "{x} and {y} have no state name in common: {states_x} against {states_y}",
        "The cost by labels is 0 only for equal names. With no name in common the distance is 1 whatever the processes "
        "do. Check the state columns, or use another cost."),
    "discount-chosen": Kind(INFO, "the discount is {discount:g}, because a sequence{of} has {steps} steps on average; "
        "[[discount]] sets it",
        "1 / (1 - discount) is the number of steps that count. It was set to the mean length of a sequence. Set it "
        "yourself to compare results between files."),
    # Errors that suggest an option
    "no-state-column": Kind(ERROR, "which column is the state? Pass [[state=COLUMN]]; {columns}",
        "No column is called state or concept:name, the names that are recognised. Name the column whose "
        "values are the states of the process. Several columns together can be one state."),
    "several-columns": Kind(ERROR, "there is no column {name}; {columns}; name several one by one, as in "
        "[[state=['A', 'B']]]",
        "A comma in the name suggests that several columns are meant. Name each of them."),
    "which-coordinates": Kind(ERROR, "which columns are the state? Pass [[state=x,y]], some of {columns}",
        "A recording of real vectors needs the columns with its coordinates. Several could be meant."),
    "unknown-ending": Kind(ERROR, "its ending does not tell what it holds; pass [[format=NAME]], or use one of {known}",
        "Files are recognised by their ending or their first bytes. This one has neither. Name the format."),
    "measurements": Kind(ERROR, "column {column!r} holds measurements such as {example}, not labels; bin them: "
        "[[bins={{{column!r}: 10}}]], or keep all numbers: [[readers.read_vectors]]",
        "Hundreds of distinct fractions would become hundreds of states, each seen once. Bins turn a measurement into "
        "a few states. Distances between real vectors need no bins."),
    "nested-column": Kind(ERROR, "column {column!r} holds {kind}, expected text or numbers; pick another column, or "
        "keep the numbers: [[readers.read_vectors]]",
        "The entries of this column are lists, and a list cannot be a label. Coordinates are real vectors."),
    "missing-time": Kind(ERROR, "{place}, column {column!r}: the entry is missing ({value}); fill it in or remove the "
        "row, or keep the order of the file: [[time='file']]",
        "Rows are sorted by time, and this row has none. If the file is in order already, no time column is needed."),
    "frames-not-whole": Kind(ERROR, "trajectory {i}, frame {frame} is {value}, {n} frame(s) (is|are) not whole "
        "numbers; assign frames to states first, and use -1 for unassigned ones, or keep real numbers: "
        "[[readers.read_vectors]]",
        "Discrete trajectories hold numbers of states. Cluster real coordinates first, or compare them as vectors."),
    "not-trajectories": Kind(ERROR, "{n} dimension(s) of {dtype}, expected trajectories: one or two dimensions of "
        "whole numbers, or keep real numbers: [[readers.read_vectors]]",
        "Arrays of discrete trajectories have one or two dimensions. Arrays of real coordinates are read as vectors."),
    "period-without-times": Kind(ERROR, "a {period} is cut out of times; pass [[time=COLUMN]], one of: {columns} (none "
        "has a usual name, such as {usual})",
        "Splitting by day, week or month needs a column with times. Name it."),
    "no-periods": Kind(ERROR, "column {column!r} holds plain numbers such as {example}, which have no {period}; write "
        "times such as 2026-05-01T12:00:00, or name a column with the periods: [[by=COLUMN]]",
        "Plain numbers do not say which day or week they belong to. Write dates, or add a column of periods."),
    "row-without-period": Kind(ERROR, "{place}, column {column!r}: the time is missing, so the {period} is unknown; "
        "fill it in, remove the row, or name a column with the periods: [[by=COLUMN]]",
        "Splitting by day, week or month needs the time of every row. Traces of some agents have none."),
    "gap-without-times": Kind(ERROR, "gap cuts by time, but no column holds times; pass [[time=COLUMN]]",
        "A gap is a pause between two rows, which needs the time of each row. Name the column with the times."),
    "row-without-state": Kind(ERROR, "{place} has no {state} ({n:,} such row(s)); fill it in, remove it, or pass "
        "[[missing='cut']]",
        "A missing state would join two states that did not follow each other. Cutting starts a new sequence there."),
    "missing-values": Kind(ERROR, "row {row}, coordinate {column} is NaN; pass [[gaps='cut']] to cut the episode there",
        "A missing value would join two rows that did not follow each other. Cutting starts a new episode after it."),
    "unknown-lifecycle": Kind(ERROR, "no event has the lifecycle {lifecycle}; the log has {kinds}: pass one of them, "
        "or [[lifecycle='all']]",
        "Events of a log say whether an activity was started, completed, and so on. None of them is of the requested "
        "kind. The note lists those that occur."),
    "no-step": Kind(ERROR, "no sequence has two rows, so there is no step to count{sequences}; check the sequence "
        "column, or record longer sequences",
        "Every sequence of the table has a single row. Usually the wrong column was taken for the sequence: one that "
        "numbers rows instead of users, sessions or cases."),
    "needs-dask": Kind(ERROR, "several processes need dask.distributed: pip install 'somcot[dask]'",
        "Dask, an optional dependency, spreads work over processes. Threads need no installation."),
    "end-is-a-state": Kind(ERROR, "{end} is a state of the data already; choose another label, or leave out [[end]] "
        "and pass [[terminated=True]] if sequences end there",
        "The final state that is added must not occur in the data, or a sequence would seem to continue from it. If "
        "the data already have a final state, say that sequences end there."),
    "never-ends": Kind(ERROR, "state {state} never ends, it is one of {n} states that are recurrent; [[total=True]] "
        "needs every state to lead to an absorbing one; [[discount=1]] compares the long run",
        "A total cost is finite only if both processes end. This process never ends in some of its states. Use "
        "the long-run average, or a discount."),
    "constant-coordinate": Kind(ERROR, "{names} never changes, so it has no standard deviation; leave it out, or pass "
        "[[scale=1.0]]",
        "Coordinates are divided by their standard deviations, and that of a constant is 0. A constant coordinate adds "
        "nothing to a distance. Leave it out, or use the coordinates as they are."),
    "vectors-need-auto": Kind(ERROR, "recordings of real vectors have a distance with [[method='auto']] and a discount "
        "below 1, not with [[{instead}]]; [[somcot.discretise]] makes Samples of them, which take the other methods "
        "and clocks",
        "Distances between real vectors use cells with corrections that exist for the default method only. "
        "Discretising first gives ordinary recordings, without these corrections."),
    "needs-episodes": Kind(ERROR, "[[{purpose}]]: needs whole episodes, which Counts do not store; pass the Samples, "
        "or leave it out",
        "Counts hold how often each transition was made. Resampling whole episodes needs the recording itself."),
    "unknown-cost": Kind(ERROR, "found {cost!r}, expected an array, a function of x and y, or one of {known}{hint}",
        "A cost can be given by name. This is none of the names. A matrix is passed as an array or an existing file."),
    "no-attributes": Kind(ERROR, "has no attributes; read a graph, or make a chain: MarkovChain(..., attributes=...)",
        "The cost compares an attribute of the nodes of graphs. This process was not read from a graph."),
    "unknown-attribute": Kind(ERROR, "there is no attribute {name!r}; the nodes have {known}",
        "The cost compares an attribute of the nodes, and no node has one of this name. Check the spelling."),
    "attribute-missing": Kind(ERROR, "attribute {name!r} is missing in {n} state(s): {states}; fill it in",
        "The cost compares an attribute that some nodes do not have. What such a node costs cannot be guessed."),
    "no-neighbours": Kind(ERROR, "found {kind}, but only known chains have neighbours; read a graph, or use .chain()",
        "Degree and neighbourhood look at the structure of a known chain or graph. A recording has none."),
    "row-sum": Kind(ERROR, "{what} {total:.10g}, expected 1{more}; pass normalize=True to rescale",
        "Probabilities must sum to 1 within rounding. If the numbers are counts or weights, rescale them."),
    "file-row-sum": Kind(ERROR, "{what} {total:.10g}, expected 1{more}; divide the row by its sum",
        "Probabilities must sum to 1 within rounding. Rescale the numbers before the file is saved."),
    "gzip-damaged": Kind(ERROR, "the {packing} data are damaged{where} ({reason}); copy or compress it again",
        "The compressed file cannot be unpacked to its end. Usually a download or a copy was interrupted."),
    "day-or-month": Kind(ERROR, "column {column!r} holds dates such as {example}, in which day and month could be "
        "exchanged; say which comes first: [[time_format='day-first']] or [[time_format='month-first']]",
        "No date of the column has a number above 12, which would show the order. A wrong guess would reorder events."),
    "columns-chosen": Kind(INFO, "columns were chosen by their names: {columns}; name others with [[state=COLUMN]], "
        "[[sequence=COLUMN]] and [[time=COLUMN]] ([[time='file']] keeps the order of the file)",
        "Columns that are not named are recognised by usual names such as activity, case_id, session_id or timestamp. "
        "Name them if another column is meant."),
    "flags-constant": Kind(INFO, "column {column!r} is constant in every sequence and also true in {n:,} row(s) that "
        "(is|are) not the last; it is taken to say which sequences terminated, with their last row",
        "Such a column describes the sequence. If each of its rows is an episode, leave out the sequence column."),
    "flags-inside": Kind(CAUTION, "column {column!r} is true in {n:,} row(s) that (is|are) not the last of a sequence, "
        "which is split there, and each part counts as terminated; if only last rows end, correct the column",
        "This is right if a sequence holds several episodes. A column that stays true splits after every row."),
    "rows-removed": Kind(INFO, "{n:,} row(s) (has|have) no {state} and (was|were) removed; they split sequences at "
        "{cuts:,} place(s)",
        "No step leads across a removed row. Worry if such rows are many or their absence has a reason."),
    "groups-cut": Kind(INFO, "{by} changes {n:,} time(s) within a sequence, which is split there; the step across "
        "belongs to no group",
        "A sequence that passes from one group to another, such as a case that lasts from May to June, is split at the "
        "change. No group gets the step across, and the part before it counts as cut off, not as ended."),
    "epoch-times": Kind(INFO, "column {column!r} is read as {unit} since 1970, hence from {first} to {last}; name the "
        "unit if that is wrong: [[time_format='{unit}']]",
        "Numbers of this size are usually times since 1970, and periods need dates."),
    "no-sessions": Kind(ERROR, "{found}; expected sessions of an agent with tool calls; a table of events in JSON is "
        "read with [[format='json']] or [[format='jsonl']]",
        "The file looks like a recording of an agent, but without tool calls there is no sequence to compare."),
    "files-left-out": Kind(CAUTION, "{n:,} file(s) (was|were) left out, the first is {file} ({why})",
        "Summaries and settings are no loss, damaged sessions are. Look at the first one."),
    "broken-lines": Kind(CAUTION, "{n:,} line(s) (is|are) cut short or not valid JSON and (was|were) left out",
        "A line of a recording could not be parsed. The last line of a session that is still being written usually "
        "is cut short. The calls in such lines are missing."),
    "values-left-out": Kind(INFO, "{n:,} JSON value(s) (belongs|belong) to no known format of traces and (was|were) "
        "left out",
        "The file holds other things besides sessions, such as settings."),
    "sessions-without-calls": Kind(INFO, "{n:,} session(s) (has|have) no tool call and (was|were) left out",
        "A session of text alone has no sequence of calls to compare. They are counted so that none is lost silently."),
    "unknown-code": Kind(ERROR, "there is no code {code!r} (somcot explain lists all codes){near}",
        "Codes of notes are listed by somcot explain without an argument, and in docs/reference/notes.md."),
}  # fmt: skip
