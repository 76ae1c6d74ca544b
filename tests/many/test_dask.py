"""The same bits on a Dask cluster, also when its workers die."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot.many import matrix
from somcot.many import matrix as cluster
from somcot.readers import count_table
from tests.many.test_matrix import COST, DATA, WALKS, same
from tests.notes import noted
from tests.readers.test_counting import spread, table

distributed: Any = pytest.importorskip("distributed")
MIXED: list[Any] = [*WALKS[:3], *list(DATA.values())[:4]]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as found:
            yield found


@pytest.mark.filterwarnings("ignore")
def test_equal_bits_with_and_without_a_client(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = somcot.distance_matrix(MIXED, COST, discount=0.9, confidence=0.9)
    monkeypatch.setattr(matrix, "_TASK", 0.01)
    assert same(here, somcot.distance_matrix(MIXED, COST, discount=0.9, confidence=0.9, client=client))
    by_function = somcot.distance_matrix(WALKS[:3], lambda x, y: COST, discount=0.9, client=client)
    assert same(by_function, somcot.distance_matrix(WALKS[:3], lambda x, y: COST, discount=0.9))


@pytest.mark.filterwarnings("ignore")
def test_tables_counted_by_a_client(client: Any, tmp_path: Path) -> None:
    folder = spread(table(), tmp_path / "a", 4, "parquet")
    here = count_table(folder, sequence="user", time="t", state="page")
    there = count_table(folder, sequence="user", time="t", state="page", client=client)
    assert np.array_equal(here.counts(), there.counts())
    assert np.array_equal(here.start_counts, there.start_counts)


class Lonely:
    """A client whose workers never come."""

    status = "running"

    def scheduler_info(self, **_: Any) -> dict[str, Any]:
        return {"workers": {}}

    def submit(self, *_: Any, **__: Any) -> Any:
        return _Never()


class _Never:
    status = "pending"

    def cancel(self) -> None:
        pass


def test_no_worker_for_a_while_means_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.05)

    def nothing(*_: Any) -> list[Any]:
        time.sleep(0.02)
        return []

    monkeypatch.setattr(cluster, "_finished", nothing)
    with noted("client-lost", reason="no worker for 0 s"):
        found = somcot.distance_matrix(WALKS, COST, discount=0.9, client=Lonely())
    assert same(found, somcot.distance_matrix(WALKS, COST, discount=0.9))


@pytest.mark.filterwarnings("ignore")
def test_a_closed_client_is_refused() -> None:
    with distributed.Client(processes=False, n_workers=1, dashboard_address=None) as closed:
        pass
    with pytest.raises(ValueError, match="client: its status is 'closed'"):
        somcot.distance_matrix(WALKS, COST, discount=0.9, client=closed)


class Leaving(Lonely):
    """A client that is closed while the work goes on."""

    looks = 0

    @property
    def status(self) -> str:  # type: ignore[override]
        self.looks += 1
        return "running" if self.looks < 4 else "closed"


def test_a_client_closed_on_the_way_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_finished", lambda *_: [])
    with noted("client-lost", reason="it was closed"):
        found = somcot.distance_matrix(WALKS, COST, discount=0.9, client=Leaving())
    assert same(found, somcot.distance_matrix(WALKS, COST, discount=0.9))


def test_counting_refuses_what_is_no_client(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="client: found str"):
        count_table(tmp_path, state="page", client="tcp://nowhere")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_twenty_killed_workers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = list(DATA.values()) * 6
    here = somcot.distance_matrix(sets, COST, discount=0.9, confidence=0.9)
    monkeypatch.setattr(matrix, "_TASK", 0.02)
    kills: list[int] = []
    over = threading.Event()
    for _ in range(40):
        there = cluster.local_client(2)
        try:

            def kill(client: Any = there) -> None:
                rng = np.random.default_rng(len(kills))
                while not over.is_set() and len(kills) < 20:
                    over.wait(1.0 + float(rng.random()))
                    workers: list[int] = []
                    with suppress(OSError):  # one that is just starting or going does not answer
                        workers = list(client.run(os.getpid).values()) if not over.is_set() else []
                    if workers and not over.is_set():
                        os.kill(workers[int(rng.integers(len(workers)))], signal.SIGKILL)
                        kills.append(1)
                        over.wait(4.0)  # a worker needs a while to start

            over.clear()
            killer = threading.Thread(target=kill)
            killer.start()
            found = somcot.distance_matrix(sets, COST, discount=0.9, confidence=0.9, client=there)
            over.set()
            killer.join()
            assert same(here, found)
        finally:
            there.close()
            there.cluster.close()
        if len(kills) >= 20:
            break
    assert len(kills) >= 20
