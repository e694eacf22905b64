"""Where the points of a sweep are computed. Each yields what it was asked for with its rows, or with the error it ended in."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, SupportsIndex, TypeAlias, TypeVar

from . import _check, _interrupt
from ._errors import ArgumentError, Error, NotEnoughMemoryError, described
from ._pcstream import memory_allowed


#: What came of a point.
Rows: TypeAlias = list[dict[str, Any]]
#: Whoever stops taking from it closes it, which ends what is under way.
Done: TypeAlias = Generator[tuple[str, "Rows | BaseException"], None, None]
#: What a process answers.
Answer = TypeVar("Answer")


class Point(Protocol):
    """What can be computed anywhere."""

    def check(self) -> None:
        """Refuses to be computed where it would not be the same."""
        ...

    def rows(self) -> Rows:
        """Computes it."""
        ...

    def within(self, memory: int) -> Point:
        """The same in at most so many bytes, unless it has a limit already: then itself."""
        ...


#: How often a point is computed again because a worker died.
RETRIES = 3
#: What to do where processes cannot start.
REMEDY = (
    "use executor='here'; or put schemes into a module that is imported, and what a script runs below "
    "`if __name__ == '__main__':`"
)
#: Of multiprocessing's own check, which gives no remedy but the last.
STARTING = "_inheriting"


def compute(point: Point) -> Rows:
    """Runs in a worker."""
    return point.rows()


def of(executor: object, workers: SupportsIndex | None) -> Callable[[Mapping[str, Point]], Done]:
    """What computes points, and yields them in the order in which they end; one that cannot be is refused before the first."""
    if workers is not None:
        workers = _check.whole("workers", workers, 1, 2**15)
    if executor == "processes":
        return partial(processes, workers)
    where: Callable[[Mapping[str, Point]], Done]
    if executor == "here":
        where = here
    elif _is_client(executor):
        where = partial(dask, executor)
    elif getattr(executor, "__name__", "") == "ray":
        where = partial(ray, executor)
    else:
        expected = "'here', 'processes', a dask.distributed.Client, or the module ray"
        raise ArgumentError(f"executor {executor!r}: expected {expected}")
    if workers is not None:
        text = "is for 'processes' alone; a cluster has as many as were started, and 'here' none"
        raise ArgumentError(f"workers {workers} {text}: leave it out")
    return where


def _is_client(executor: object) -> bool:
    """Whether it is Dask's, which is not imported for this."""
    return any(of.__name__ == "Client" and of.__module__.partition(".")[0] == "distributed" for of in type(executor).__mro__)


def here(points: Mapping[str, Point]) -> Done:
    """One after another, in this process."""
    for file, point in points.items():
        yield file, _caught(point)


def _caught(point: Point) -> Rows | BaseException:
    try:
        return compute(point)
    except Exception as error:
        return error


def processes(workers: int | None, points: Mapping[str, Point]) -> Done:
    """In processes of this machine. A process that dies takes its pool with it; the points left get a new one.

    If processes go on dying, each point that is left gets one of its own, so that the others lose nothing by it.
    They share the memory of the machine. What needs more than its share comes last, and alone.
    """
    if not points:
        return
    workers = min(workers or len(os.sched_getaffinity(0)), len(points))
    share = memory_allowed() // workers
    if getattr(multiprocessing.current_process(), STARTING, False):
        raise ArgumentError(f"executor 'processes': one of the processes calls sweep() again while it starts; {REMEDY}")
    # A point that cannot be read in another process would end it, so it travels as bytes.
    left = {file: _packed(point.within(share)) for file, point in points.items()}
    large: list[str] = []
    for attempt in range(RETRIES + 1):
        with _pool(workers) as pool:
            if attempt == 0:
                _try(pool, next(iter(left.values())))
            for file, rows in _together(pool, left):
                left.pop(file)
                if isinstance(rows, NotEnoughMemoryError) and points[file].within(share) is not points[file]:
                    large.append(file)
                else:
                    yield file, rows
        if not left:
            break
    for file in [*left, *large]:
        with _pool(1) as pool:
            error = (future := _submitted(pool, _compute, _packed(points[file]))).exception()
            yield file, future.result() if error is None else error


@contextmanager
def _pool(workers: int | None) -> Iterator[ProcessPoolExecutor]:
    """Processes that are killed if the sweep ends early: nobody waits for the points that they compute."""
    # Not forked: threads that simulate do not survive a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)
    with pool:
        try:
            yield pool
        except BaseException:
            # Before the shutdown, which forgets them.
            running = list(pool._processes.values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.kill()
            raise


def _submitted(pool: ProcessPoolExecutor, work: Callable[[bytes], Answer], data: bytes) -> Future[Answer]:
    """The pool may start a process for it, which it must know before Ctrl-C ends it."""
    with _interrupt.held():
        return pool.submit(work, data)


def _begin() -> None:
    """Runs in a new process, which ends with the one that started it, also if that is killed."""
    # A terminal sends Ctrl-C to all processes. The one that calls sweep() decides for the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _together(pool: ProcessPoolExecutor, points: Mapping[str, bytes]) -> Done:
    """Points in the order in which they end, until a process dies."""
    try:
        futures = {_submitted(pool, _compute, data): file for file, data in points.items()}
        for future in as_completed(futures):
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                return
            yield futures[future], future.result() if error is None else error
    except BrokenProcessPool:
        return


def _packed(point: Point) -> bytes:
    try:
        return pickle.dumps(point)
    except Exception as error:
        raise ArgumentError(f"executor 'processes': a scheme cannot go to another process: {error}; {REMEDY}") from error


def _compute(data: bytes) -> Rows:
    try:
        return compute(pickle.loads(data))
    except BaseException as error:
        if _travels(error):
            raise
        raise Error(described(error)) from error


def _travels(error: BaseException) -> bool:
    """Whether it can be read in another process. One that cannot would end the pool there, as if a process had died."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


def _arrives(data: bytes) -> None:
    point: Point = pickle.loads(data)
    point.check()


def _try(pool: ProcessPoolExecutor, data: bytes) -> None:
    """Whether processes start at all, and get the same point: if not, trying again is of no use."""
    try:
        _submitted(pool, _arrives, data).result()
    except BrokenProcessPool:
        raise ArgumentError(
            "executor 'processes': a process ended while it started. It runs the script first, which must not fail or call "
            f"sweep() again there; a script from standard input cannot be run again; {REMEDY}"
        ) from None
    except (AttributeError, ImportError, pickle.PickleError) as error:
        raise ArgumentError(
            f"executor 'processes': another process cannot read the schemes ({error}), as with a class that is defined in a "
            f"notebook or an interactive session; {REMEDY}"
        ) from error


def dask(client: Any, points: Mapping[str, Point]) -> Done:
    """On a Dask cluster, which computes a point again if its worker dies."""
    import distributed

    completed: Any = distributed.as_completed

    # Not pure: Dask would keep results by the point alone, whatever the version of the worker. Without its retries, which
    # are for exceptions: a point would fail again. How often workers may die is its setting allowed-failures.
    futures = {client.submit(compute, point, pure=False): file for file, point in points.items()}
    try:
        for future in completed(futures):
            error = future.exception()
            yield futures[future], future.result() if error is None else error
            future.release()
    finally:
        client.cancel(list(futures))


def ray(module: Any, points: Mapping[str, Point]) -> Done:
    """On a Ray cluster, which computes a point again if its worker dies."""
    remote = module.remote(max_retries=RETRIES)(compute)
    futures = {remote.remote(point): file for file, point in points.items()}
    waiting = list(futures)
    try:
        while waiting:
            (first, *_), waiting = module.wait(waiting, num_returns=1)
            try:
                rows: Rows | BaseException = module.get(first)
            except Exception as error:
                # Ray's own has a traceback in colours as its text.
                cause = getattr(error, "cause", None)
                rows = cause if isinstance(cause, Exception) else error
            yield futures[first], rows
    finally:
        for future in waiting:
            module.cancel(future, force=True)
