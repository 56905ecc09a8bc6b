"""The daemon: a thread for each loop, the log door and the table door beside them, one clean end."""

from __future__ import annotations

import contextlib
import threading

import structlog
from pyiceberg.catalog import Catalog

from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.catalog.access import is_retired
from engine.table.catalog.deferred import open_catalog_when_there
from engine.table.catalog.sql import KeptMetadata
from floeberg.daemon.assembly import TieringAssembly, assemble_tiering
from floeberg.daemon.bound_sources import cache_bounds
from floeberg.daemon.data_dir_lock import lock_data_dir
from floeberg.daemon.door_access import exposures, host_names, refuse_open_doors, status_access
from floeberg.daemon.door_token import log_door_secrets
from floeberg.daemon.end_request import EndRequest
from floeberg.daemon.history_keeper import HistoryKeeper
from floeberg.daemon.private_files import tightened
from floeberg.daemon.status_board import StatusBoard
from floeberg.http.server import HttpServer
from floeberg.settings import Settings
from floeberg.settings.file_access import keep_private
from floeberg.settings.secret import TokensInClear
from floeberg.tables.stored_status import stored_partitions
from floeberg.tables.topic_tables import TopicTables
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.commit_signal import CommitSignal
from serving.log.copy_requests import CopyRequests
from serving.log.damage_watch import DamageWatch
from serving.log.door import create_log_door
from serving.log.tiered_log import TieredLog
from serving.status.daemon_status import Phase
from serving.status.history import History
from serving.status.page_source import PageSource
from serving.status.routes import status_routes
from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tiering.cycle_report import CycleReport

FINISH_TIMEOUT_SECONDS = 15.0
"""How long a cycle under way may go on when the daemon is to end; then its Spark job is cut off. Nothing is lost:
what was not committed is done again."""

HISTORY_FILE = "history"
"""In the data directory: what the last day was like, for the page (docs/status_page.md)."""

LOOK_FOR_SIGNALS_SECONDS = 0.5
"""The kernel may hand a signal of the process to any of its threads; Python's handler runs in the main one, which then
sleeps on."""

_log = structlog.get_logger(__name__)


class Daemon:
    """Runs from ``start`` to ``stop``. A context manager; ``wait`` blocks until somebody asks for the end.

    Raises, from ``start``: ``Invalid`` when another daemon works in the data directory or a setting is refused,
    ``Unavailable`` when an address is taken. A broker or a catalog that is away is waited for.
    """

    def __init__(self, settings: Settings, clock: Clock, *, in_process: bool = False) -> None:
        """``in_process``: rewrite segments in this process, one after the other, instead of with Spark."""
        self._settings = settings
        self._clock = clock
        self._in_process = in_process
        self._ended = threading.Event()
        self._resources = contextlib.ExitStack()
        self._failure: FloebergError | None = None
        self._board: StatusBoard | None = None

    def __enter__(self) -> Daemon:
        try:
            self.start()
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Lock the data directory, open the doors, begin tiering."""
        settings, clock = self._settings, self._clock
        refuse_open_doors(settings)
        keep_private(settings)
        self._resources.enter_context(lock_data_dir(settings.data_dir))
        for change in tightened(settings):
            _log.warning("file_access_changed", change=change)
        kept = KeptMetadata()
        assembly = assemble_tiering(settings, clock, in_process=self._in_process, kept=kept)
        self._resources.callback(assembly.close)
        # A catalog of the doors' own, which never wait for a connection that a commit has.
        catalog = open_catalog_when_there(settings.catalog_properties, kept)
        history = History(settings.data_dir / HISTORY_FILE)
        keeper = HistoryKeeper(assembly.board, history, clock)
        source = PageSource(
            assembly.board.status,
            clock=clock,
            history=history,
            problems=assembly.board.problems,
            rates=lambda: keeper.rates,
        )
        self._keep_history(keeper)
        table_door = self._open_table_door(assembly, catalog, source)
        log_door = self._open_log_door(assembly, catalog)
        self._resources.callback(self._end_loops, assembly, self._begin_loops(assembly, catalog))
        self._board = assembly.board
        for section, told, is_worth_a_warning in exposures(settings):
            (_log.warning if is_worth_a_warning else _log.info)("door_beyond_this_machine", door=section, told=told)
        _log.info("floeberg_runs", log_door=log_door.url, table_door=table_door.url, data_dir=str(settings.data_dir))

    def wait(self, asked: EndRequest) -> None:
        """Block until the end is asked for. For the main thread. Raises the error when tiering ended by itself."""
        while not asked.is_made and not self._ended.wait(LOOK_FOR_SIGNALS_SECONDS):
            pass
        # Who ends a daemon often ends its Spark with it, and tiering notices that first.
        if self._failure is not None and not asked.is_made:
            if self._failure.__cause__ is not None:
                _log.error("tiering_ended", exc_info=self._failure.__cause__)
            raise self._failure

    def stop(self) -> None:
        """End everything in the opposite order of its start: tiering, doors, Spark, the lock."""
        self._ended.set()
        self._resources.close()
        if self._board is not None:
            status, self._board = self._board.status(), None
            rows = sum(partition.rows for partition in status.partitions)
            _log.info("floeberg_ended", commits=status.commit_count, records=rows, uptime_s=status.uptime_ms // 1000)

    def _keep_history(self, keeper: HistoryKeeper) -> None:
        """In a thread that nobody waits for: a disk that hangs keeps no daemon from its end."""
        threading.Thread(target=keeper.run_forever, args=(self._ended,), name="history", daemon=True).start()

    def _open_table_door(self, assembly: TieringAssembly, catalog: Catalog, source: PageSource) -> HttpServer:
        settings, board = self._settings, assembly.board
        door = settings.table_door
        access = status_access(settings)
        view = CatalogView(catalog)
        routes = [
            *table_door_routes(
                view, tokens=access.tokens, hosts=host_names(door, "table_door"), metrics=board.metrics.doors
            ),
            *status_routes(board.status, board.metrics, source, access=access),
        ]
        server = HttpServer(routes, door.listen, setting="[table_door] listen", tls=door.tls)
        return self._resources.enter_context(server)

    def _open_log_door(self, assembly: TieringAssembly, catalog: Catalog) -> HttpServer:
        settings, commits = self._settings, CommitSignal()
        index = FileIndex(cache_directory=settings.data_dir / "cache" / "footers", live=assembly.verifier.live)
        reader = LogReader(file_index=index)
        self._resources.callback(reader.close)
        assembly.board.watch(lambda: cache_bounds(reader))
        assembly.sweeps.watch_readers(reader.open_files)
        copies = CopyRequests(self._clock)
        assembly.board.watch_copies(copies)
        backend = TieredLog(
            tables=TopicTables(catalog, settings.namespace, topic_of=assembly.loop.topic_of),
            reader=reader,
            verifier=assembly.verifier,
            tiering=assembly.loop,
            store=AuxiliaryStore(),
            copies=copies,
            clock=self._clock,
        )
        watch = DamageWatch(backend, topic_of=backend.topic_of, forget=reader.forget)
        self._resources.enter_context(watch)
        assembly.board.watch_damages(watch.found)
        assembly.loop.on_cycle(lambda report: _ring(commits, report))
        metrics = assembly.board.metrics.doors
        door = settings.log_door
        routes = create_log_door(
            watch,
            tokens=TokensInClear(*log_door_secrets(settings)),
            hosts=host_names(door, "log_door"),
            commits=commits,
            metrics=metrics,
            clock=self._clock,
        )
        server = HttpServer(routes, door.listen, setting="[log_door] listen", tls=door.tls)
        return self._resources.enter_context(server)

    def _begin_loops(self, assembly: TieringAssembly, catalog: Catalog) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=self._look_at_tables, args=(assembly.board, catalog), name="stored", daemon=True),
            threading.Thread(target=self._tier, args=(assembly,), name="tiering", daemon=True),
            threading.Thread(
                target=assembly.compaction.run_forever, args=(self._ended,), name="compaction", daemon=True
            ),
            threading.Thread(target=assembly.horizons.run_forever, args=(self._ended,), name="horizons", daemon=True),
            threading.Thread(target=assembly.sweeps.run_forever, args=(self._ended,), name="sweeps", daemon=True),
            threading.Thread(target=assembly.latest.run_forever, args=(self._ended,), name="latest", daemon=True),
        ]
        for thread in threads:
            thread.start()
        return threads

    def _look_at_tables(self, board: StatusBoard, catalog: Catalog) -> None:
        """What is tiered shows before Spark has started. What keeps a table from being read, its own cycle tells."""
        with contextlib.suppress(FloebergError):
            tables = TopicTables(catalog, self._settings.namespace).all()
            present = (table for table in tables if not is_retired(table.identifier, table.topic_id))
            board.note_stored(status for table in present for status in stored_partitions(table))

    def _tier(self, assembly: TieringAssembly) -> None:
        try:
            # Spark takes seconds to start: now, not when the first segment waits, and a wrong [spark] shows.
            assembly.workers.start()
            if not self._ended.is_set():
                assembly.board.enter(Phase.RUNNING)
            assembly.loop.run_forever(self._ended)
        except FloebergError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - the thread's outermost guard
            # A JVM that is ended while it starts shows as errors of any kind.
            self._failure = Unavailable(
                f"Tiering ended by itself: {error!r}", next_step="please report it with the log"
            )
            self._failure.__cause__ = error
        finally:
            if not self._ended.is_set():
                self._failure = self._failure or Unavailable("Tiering ended by itself", next_step="look at the log")
                self._ended.set()

    def _end_loops(self, assembly: TieringAssembly, threads: list[threading.Thread]) -> None:
        assembly.board.enter(Phase.STOPPING)
        self._ended.set()
        assembly.loop.hurry()
        assembly.compaction.hurry()
        assembly.sweeps.hurry()
        assembly.latest.hurry()
        if not self._have_ended(threads):
            _log.warning("cycle_cut_off", after_seconds=FINISH_TIMEOUT_SECONDS)
            assembly.workers.stop()
            self._have_ended(threads)

    def _have_ended(self, threads: list[threading.Thread]) -> bool:
        """Whether all did within the time that they have together."""
        patient_until_ms = self._clock.monotonic_ms() + FINISH_TIMEOUT_SECONDS * 1000
        for thread in threads:
            thread.join(max(0.0, patient_until_ms - self._clock.monotonic_ms()) / 1000)
        return not any(thread.is_alive() for thread in threads)


def _ring(commits: CommitSignal, report: CycleReport) -> None:
    """Wake the copies that wait for a range that was committed, or that was found damaged."""
    troubled = [partition.partition for partition in report.attended if partition.problem is not None]
    commits.ring([(changed.topic_id, changed.partition) for changed in (*report.committed, *troubled)])
