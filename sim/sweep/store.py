"""Rows in one SQLite file, `sweep.sqlite`: each is there whole or not at all, also after a power cut.

    plan(number, configuration)          what is to run, as JSON; written once, in one transaction
    rows(number, status, why, report)    what became of it; one transaction a row
    results                              a view: both joined, the dials and the usual figures as columns

    import pandas, sqlite3
    pandas.read_sql("SELECT * FROM results", sqlite3.connect("out/sweep.sqlite"))

SQLite's rollback journal undoes on opening what a killed process left half done. One process writes; a lock
file, which the system lets go of when that process ends, keeps others out. Anybody may read meanwhile.
"""

import sqlite3
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from filelock import FileLock, Timeout

from sim.errors import InputError
from sim.sweep.plan import DIALS, Configuration, Plan
from sim.sweep.work import STATUSES, Row
from sim.version import VERSION

FILE_NAME = "sweep.sqlite"
# Columns of `results` beside the dials, and where they stand in a run's report.
FIGURES = {
    **{name: f"requests.{name}" for name in ("arrived", "finished", "rejected", "unfinished")},
    **{name: name for name in ("steps", "time_s", "idle_s", "preemptions", "waste_percent", "peak_blocks")},
    "mean_batch": "batch.mean",
    "pool": "ledger.pool",
    "live": "ledger.live",
    "requests_per_s": "throughput.requests_per_s",
    "tokens_per_s": "throughput.tokens_per_s",
    "hit_tokens": "prefix.hit_tokens",
    **{
        f"{latency}_{point}_s": f"latency.{latency}.{point}"
        for latency in ("ttft", "tpot", "e2e")
        for point in ("mean", "p50", "p95", "p99")
    },
}


class Store:
    """The rows of one plan. Made by `open_store`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None)  # we begin transactions

    def prepare(self, plan: Plan) -> None:
        """Writes the plan, or finds it written. Raises InputError where there is another one."""
        stated = {"pagelab": VERSION, **plan.digests}
        if not self._query("SELECT name FROM sqlite_master"):
            self._begin(plan, stated)
            return
        before: dict[str, str] = dict(self._query("SELECT name, value FROM facts"))
        changed = [name for name, value in stated.items() if name in before and before[name] != value]
        if changed:
            raise InputError(
                f"{self.path}: its rows are of another {changed[0]}, which has changed since; "
                "choose another --out"
            )
        if self._plan() != [as_text(one) for one in plan.configurations]:
            raise InputError(
                f"{self.path}: holds another sweep, of {len(self._plan())} configurations; choose another "
                "--out, or give the same configurations to go on with it"
            )

    def _begin(self, plan: Plan, facts: Mapping[str, str]) -> None:
        with self._transaction():
            run = self._database.execute
            run("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT)")
            run("CREATE TABLE plan (number INTEGER PRIMARY KEY, configuration TEXT NOT NULL)")
            run(
                "CREATE TABLE rows (number INTEGER PRIMARY KEY REFERENCES plan, status TEXT NOT NULL, "
                "why TEXT, report TEXT)"
            )
            run(f"CREATE VIEW results AS {_view(plan.configurations)}")
            many = self._database.executemany
            many("INSERT INTO facts VALUES (?, ?)", facts.items())
            many("INSERT INTO plan VALUES (?, ?)", enumerate(map(as_text, plan.configurations), start=1))

    def _plan(self) -> list[str]:
        return [text for (text,) in self._query("SELECT configuration FROM plan ORDER BY number")]

    @property
    def num_planned(self) -> int:
        """Rows that there will be."""
        return self._query("SELECT count(*) FROM plan")[0][0]

    def missing(self) -> dict[int, Configuration]:
        """What has no row yet, by number."""
        rows = self._query(
            "SELECT number, configuration FROM plan WHERE number NOT IN (SELECT number FROM rows) "
            "ORDER BY number"
        )
        return {number: orjson.loads(text) for number, text in rows}

    def add(self, number: int, row: Row) -> None:
        """Writes one row; it is on the disk when this returns. A number that has one already is an error."""
        report = as_text(row["report"]) if "report" in row else None
        with self._transaction():
            self._database.execute(
                "INSERT INTO rows VALUES (?, ?, ?, ?)", (number, row["status"], row.get("why"), report)
            )

    def forget_failures(self) -> int:
        """Takes out rows that crashed or ran out of memory, so that they run again; returns how many."""
        with self._transaction():
            return self._database.execute(
                "DELETE FROM rows WHERE status IN ('crashed', 'out of memory')"
            ).rowcount

    def counts(self) -> dict[str, int]:
        """How many rows there are of each status."""
        counts = dict(self._query("SELECT status, count(*) FROM rows GROUP BY status"))
        return {status: counts.get(status, 0) for status in STATUSES}

    def results(self) -> list[dict[str, Any]]:
        """The view `results`, in the order of the plan."""
        cursor = self._database.execute("SELECT * FROM results ORDER BY number")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, values, strict=True)) for values in cursor]

    def close(self) -> None:
        """Ends it; what was added stays."""
        self._database.close()

    def _query(self, text: str) -> list[tuple[Any, ...]]:
        return self._database.execute(text).fetchall()

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        with self._database:  # commits, or rolls back after an error
            yield


@contextmanager
def open_store(folder: Path, plan: Plan) -> Generator[Store]:
    """The rows of `plan` in `folder`, which is made; those that an earlier sweep wrote are still there.

    Raises InputError, in one line, when another sweep is writing there, when the file holds another plan, is
    damaged, or cannot be written (a full disk, too: what is not there yet is then not counted as done).
    """
    path = folder / FILE_NAME
    with _locked(folder):
        try:
            store = Store(path)
            try:
                store.prepare(plan)
                yield store
            finally:
                store.close()
        except sqlite3.OperationalError as error:
            raise InputError(
                f"{path}: {error}; make room or choose another --out, then start again"
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError, orjson.JSONDecodeError) as error:
            raise InputError(
                f"{path}: is damaged ({error}); move it away and start again, or put a copy back"
            ) from error


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{folder}: another sweep is writing there; wait for it, or choose another --out"
        ) from None
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; choose another --out") from error
    try:
        yield
    finally:
        lock.release()


def as_text(value: Any) -> str:
    """As JSON; equal values give equal texts."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _view(configurations: Iterable[Configuration]) -> str:
    """The query behind `results`: a column for each dial that was given anywhere."""
    given = {name for one in configurations for name in one}
    dials = [f"json_extract(configuration, '$.{name}') AS {name}" for name in DIALS if name in given]
    figures = [f"json_extract(report, '$.{path}') AS {name}" for name, path in FIGURES.items()]
    return (
        f"SELECT number, {', '.join(dials)}, status, why, {', '.join(figures)} "
        "FROM plan JOIN rows USING (number)"
    )
