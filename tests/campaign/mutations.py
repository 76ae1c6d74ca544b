"""Do the tests notice? Forty-one deliberate faults, put one by one into a copy of the package.

``python -m tests.campaign.mutations [NUMBER ...]`` copies the repository to a temporary folder, puts each fault in,
runs the tests that should see it, and says which were caught. A fault is a file, the text that stands there (once), the
text to put instead, and the tests to run; `test_mutations.py` keeps the list in step with the code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MAKE_TEST = "not slow and not statistical and not campaign"  # what `make test` runs
CERTIFICATES, EXACT = "tests/test_certificates.py", "tests/solvers/test_exact.py"
TRANSPORT, LONG = "tests/core/test_transport.py", "tests/campaign/test_differential.py::test_long_rows"
STATISTICS, UNITS = "tests/inference/test_statistics.py", "tests/inference/test_units.py"
COMPARISON, INTERVALS = "tests/inference/test_comparison.py", "tests/inference/test_intervals.py"
POOLING = "tests/inference/test_pooling.py"
DIFFERENTIAL, BOUNDS = "tests/campaign/test_differential.py::test_slice", "tests/solvers/test_saddle_bounds.py"


class Mutant(NamedTuple):
    """A fault: what stands in the file, what is put there, and the tests that should notice."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant("certificates.py", "float(least.min()) - charged", "float(least.max()) - charged", (CERTIFICATES,)),
    Mutant(
        "certificates.py", "float(improvement.high[-1]) + most + off",
        "float(improvement.low[-1]) - most + off",
        (CERTIFICATES, DIFFERENTIAL),
    ),
    Mutant("certificates.py", "V - rounding(V), 0.0)", "V + 1e-9, 0.0)", (CERTIFICATES,)),
    Mutant(
        "problem.py",
        'np.nextafter(self.scale * real_numbers("low", low), -np.inf)',
        'self.scale * real_numbers("low", low)',
        (CERTIFICATES,),
    ),
    Mutant("problem.py", "np.minimum(above, self.most)", "above", (CERTIFICATES,)),
    Mutant("problem.py", "self.scale * unit_potential + self.offset / rest", "self.scale * unit_potential", (EXACT,)),
    Mutant("core/pairs.py", "np.full(self.index.shape, missing)", "np.zeros(self.index.shape)", (EXACT,)),
    Mutant("core/transport/__init__.py", "0.5 * (apart * (1.0", "0.25 * (apart * (1.0", (TRANSPORT,)),
    Mutant(
        "core/transport/__init__.py", "(eps + x.rounding[row] + y.rounding[column]) * spread", "eps * spread",
        (TRANSPORT, LONG, CERTIFICATES),
    ),
    Mutant(
        "core/transport/__init__.py",
        "(p[t] if m == 1 else q[t]) * buffer[t]", "(p[t] if m == 1 else q[0]) * buffer[t]",
        (TRANSPORT, EXACT),
    ),
    Mutant(
        "core/transport/__init__.py",
        "abs((summed - 1.0) + lost) + 2.0 * EPS + (length * EPS) ** 2", "0.0", (TRANSPORT,),
    ),
    Mutant("core/sweep.py", "(2 * widest[0] + 1)", "(1 * widest[0] + 1)", (TRANSPORT, EXACT)),
    Mutant(
        "core/transport/narrow_simplex.py", "if p < n and flow[p] < least:", "if p >= n and flow[p] < least:",
        (TRANSPORT,),
    ),
    Mutant(
        "plumbing/linear_systems.py", "    occupancy[~reachable(kernel, start)] = 0.0\n", "",
        ("tests/plumbing/test_linear_systems.py", "tests/test_chains.py"),
    ),
    Mutant(
        "solvers/policy_iteration.py", "max(solution.bounds.low, latest.low)", "max(solution.bounds.low, 1e-6)",
        (EXACT,),
    ),
    Mutant("solvers/policy_iteration.py", "width <= TARGET:\n        return", "width <= 1:\n        return", (EXACT,)),
    Mutant("solvers/result_builder.py", "min(max(problem.to_user(unit_distance), low), high)", "low", (EXACT,)),
    Mutant(
        "solvers/linear_program.py", "if total > 0 else np.outer(p, q)", "if total > 1.0 else np.outer(p, q)",
        ("tests/solvers/test_linear_program.py",),
    ),
    Mutant("solvers/sinkhorn.py", "exp(min(slack / epsilon, 0.0))", "exp(slack / epsilon)", (
        "tests/solvers/test_sinkhorn.py",
    )),
    Mutant("solvers/sinkhorn.py", "status is Status.CONVERGED and width > target", "False", (
        "tests/solvers/test_sinkhorn.py", EXACT,
    )),
    Mutant("solvers/saddle.py", "least + (1.0 - g) * improvement.low[-1]", "least + improvement.low[-1]", (BOUNDS,)),
    Mutant("solvers/saddle.py", "- off / 2.0 * float(far - residual.min())", "", (BOUNDS, DIFFERENTIAL)),
    Mutant("couplings.py", "np.subtract(state_law, left, out=left)", "np.add(state_law, left, out=left)", (
        "tests/test_couplings.py",
    )),
    Mutant("chains.py", "check_discount(discount), size=n) - 1", "check_discount(discount), size=n)", (
        "tests/test_chains.py",
    )),
    Mutant("derivatives.py", "slots - means[support.rows]", "slots + means[support.rows]", (
        "tests/test_derivatives.py",
    )),
    Mutant("inference/statistics.py", "(1 + int(far[-1])) / (n + 1)", "int(far[-1]) / n", (STATISTICS,)),
    Mutant("inference/statistics.py", "Permuted(enough / stop,", "Permuted(enough / n,", (STATISTICS,)),
    Mutant("inference/statistics.py", "(total - 1.0) / total", "1.0", (STATISTICS,)),
    Mutant("inference/statistics.py", "(cost[pairs] - V[pairs])", "cost[pairs]", (STATISTICS,)),
    Mutant("inference/units.py", "1.0 - taken[0::2, own]", "taken[0::2, own]", (UNITS,)),
    Mutant("inference/units.py", "rng.permutation(part)[:half]", "rng.choice(part, half)", (UNITS,)),
    Mutant("inference/units.py", "not any(few)", "not all(few)", (UNITS,)),
    Mutant("inference/comparison.py", "(centre + share * (rows - centre)", "(rows", (COMPARISON,)),
    Mutant("inference/statistics.py", "rng.multinomial(totals[row]", "rng.multinomial(totals[row] // 2", (COMPARISON,)),
    Mutant("inference/pooling.py", "(1.0 - NEW) * prior.weights + NEW", "prior.weights + 0.0", (POOLING,)),
    Mutant("inference/intervals.py", "self.plugin - self.factor * self.rise", "self.plugin - self.rise", (INTERVALS,)),
    Mutant("inference/intervals.py", "if bar.exceeded else 0.0", "if True else 0.0", (INTERVALS,)),
    Mutant("inference/intervals.py", "pooled.misfit + evidence.rise, 0.0", "evidence.rise, 0.0", (INTERVALS,)),
    Mutant("inference/model.py", "np.where(stuck[..., support.rows], fallback, shares)", "shares", (UNITS,)),
    Mutant("inference/model.py", "return total * steps", "return total", (
        INTERVALS, "tests/inference/test_estimate.py",
    )),
    Mutant("many/plan.py", "largest[int((0.5 - 0.5 * settings.confidence)", "largest[int((0.9 * settings.confidence)", (
        "tests/many/test_matrix.py",
    )),
    Mutant("steps.py", "math.sqrt(n_x * n_y / n_steps)", "math.sqrt(n_x * n_y * n_steps)", ("tests/test_steps.py",)),
    Mutant("plumbing/files.py", "            os.fsync(stream.fileno())\n", "", (
        "tests/plumbing/test_files.py", "tests/reliability/test_checkpoints.py",
    )),
    Mutant("plumbing/records.py", 'if hashlib.sha256(block).hexdigest().encode("ascii") != data', "if b'' == data", (
        "tests/plumbing/test_array_files.py",
    )),
)  # fmt: skip


def caught(mutant: Mutant, copy: Path) -> bool:
    """Put the fault in, run its tests, take it out again."""
    path = copy / "src" / "somcot" / mutant.file
    sound = path.read_text(encoding="utf-8")
    if sound.count(mutant.old) != 1:
        raise RuntimeError(f"{mutant.file}: {mutant.old!r} stands there {sound.count(mutant.old)} times; mend the list")
    path.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return fails(mutant.tests, copy)
    except subprocess.TimeoutExpired:
        return True  # it hangs: nobody would overlook that
    finally:
        path.write_text(sound, encoding="utf-8")


def fails(tests: tuple[str, ...], copy: Path) -> bool:
    """Whether one of the tests fails in the copy as it stands."""
    environment = os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", MAKE_TEST]
    done = subprocess.run([*command, *tests], cwd=copy, env=environment, capture_output=True, text=True, timeout=1800)
    if done.returncode not in (0, 1, 2):  # 2: the package cannot even be imported
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    if done.returncode:
        print(
            *[line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))], sep="\n", flush=True
        )
    return done.returncode != 0


def main(numbers: list[int]) -> int:
    """Try the faults; the exit code is the number that nobody noticed."""
    survivors = []
    with tempfile.TemporaryDirectory(prefix="somcot-mutations-") as folder:
        sound = Path(folder) / "sound"
        ignored = shutil.ignore_patterns(".git", ".venv*", "out", "*.pyc", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, sound, ignore=ignored)
        if fails(tuple(sorted({test for number in numbers for test in MUTANTS[number].tests})), sound):
            raise RuntimeError("the tests fail without any fault; mend that first")
        for number in numbers:
            mutant = MUTANTS[number]
            copy = Path(folder) / f"fault-{number}"  # a copy each: kernels that the fault does not touch stay compiled
            shutil.copytree(sound, copy, ignore=ignored)
            seen = caught(mutant, copy)
            shutil.rmtree(copy)
            survivors += [] if seen else [number]
            print(f"{number:2d} {'caught' if seen else 'SURVIVED'}  {mutant.file}: {mutant.old.strip()!r}", flush=True)
    print(f"{len(numbers) - len(survivors)} of {len(numbers)} caught", flush=True)
    return len(survivors)


if __name__ == "__main__":
    raise SystemExit(main([int(text) for text in sys.argv[1:]] or list(range(len(MUTANTS)))))
