"""Where the points of a sweep are computed. Each yields what it was asked for with its rows, or with the error it ended in."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ._errors import ArgumentError

Rows: TypeAlias = list[dict[str, Any]]
Done: TypeAlias = Iterator[tuple[Path, "Rows | BaseException"]]


class Point(Protocol):
    """What can be computed anywhere."""

    def rows(self) -> Rows:
        """Computes it."""
        ...


#: How often a point is computed again because a worker died.
RETRIES = 3


def compute(point: Point) -> Rows:
    """Runs in a worker."""
    return point.rows()


def run(executor: object, workers: int | None, points: Mapping[Path, Point]) -> Done:
    """Computes all points, and yields them in the order in which they end."""
    if not points:
        return iter(())
    if executor == "here":
        return here(points)
    if executor == "processes":
        return processes(workers, points)
    module = type(executor).__module__
    if module.partition(".")[0] == "distributed":
        return dask(executor, points)
    if getattr(executor, "__name__", "") == "ray":
        return ray(executor, points)
    raise ArgumentError(
        f"executor {executor!r}: expected 'here', 'processes', a dask.distributed.Client, or the module ray"
    )


def here(points: Mapping[Path, Point]) -> Done:
    """One after another, in this process."""
    for file, point in points.items():
        yield file, _caught(point)


def _caught(point: Point) -> Rows | BaseException:
    try:
        return compute(point)
    except Exception as error:
        return error


def processes(workers: int | None, points: Mapping[Path, Point]) -> Done:
    """In processes of this machine. A process that dies takes its pool with it; the points left get a new one."""
    # Not forked: threads that simulate do not survive a fork.
    context = multiprocessing.get_context("spawn")
    left, deaths = dict(points), 0
    while left:
        broken: BaseException | None = None
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            futures: dict[Future[Rows], Path] = {}
            try:
                futures = {pool.submit(compute, point): file for file, point in left.items()}
                for future in as_completed(futures):
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        broken = error
                        break
                    left.pop(futures[future])
                    yield futures[future], future.result() if error is None else error
            except BrokenProcessPool as error:
                broken = error
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        deaths += broken is not None
        if broken is not None and deaths > RETRIES:
            yield from ((file, broken) for file in left)
            return


def dask(client: Any, points: Mapping[Path, Point]) -> Done:
    """On a Dask cluster, which computes a point again if its worker dies."""
    import distributed

    completed: Any = distributed.as_completed

    # Not pure: Dask would keep results by the point alone, whatever the version of the worker.
    futures = {client.submit(compute, point, pure=False, retries=RETRIES): file for file, point in points.items()}
    try:
        for future in completed(futures):
            error = future.exception()
            yield futures[future], future.result() if error is None else error
            future.release()
    finally:
        client.cancel(list(futures))


def ray(module: Any, points: Mapping[Path, Point]) -> Done:
    """On a Ray cluster, which computes a point again if its worker dies."""
    remote = module.remote(max_retries=RETRIES)(compute)
    futures = {remote.remote(point): file for file, point in points.items()}
    waiting = list(futures)
    while waiting:
        (first, *_), waiting = module.wait(waiting, num_returns=1)
        try:
            rows: Rows | BaseException = module.get(first)
        except Exception as error:
            rows = error
        yield futures[first], rows
