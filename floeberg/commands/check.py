"""``floeberg check``: tries every setting and connection before the daemon does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from engine.clock import Clock, SystemClock
from engine.errors import FloebergError
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import err, out, print_json
from floeberg.settings import Settings
from floeberg.setup.check_result import CheckResult, Verdict, good, guarded

if TYPE_CHECKING:
    from engine.broker import Broker
    from engine.topic_partition import TopicIdPartition

_MARKS = {
    Verdict.GOOD: "[green]ok[/green]   ",
    Verdict.NOTE: "[yellow]note[/yellow] ",
    Verdict.WRONG: "[red]wrong[/red]",
}


def check(
    context: typer.Context,
    spark: Annotated[bool, typer.Option(help="Also start Spark (some seconds).")] = True,
    canary: Annotated[
        bool, typer.Option("--canary", help="Have the broker copy a topic of our own, and read it back.")
    ] = False,
    patience: Annotated[
        int, typer.Option(min=1, help="Seconds that the canary may take until the broker has dropped its own copy.")
    ] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Try every setting and connection, warm the kernels up, and say what is wrong with the next step."""
    results = []
    for result in _results(CommandContext.of(context), with_spark=spark, patience_s=patience if canary else None):
        results.append(result)
        if not as_json:
            _show(result)
    wrong = [result for result in results if result.verdict is Verdict.WRONG]
    if as_json:
        print_json({"good": not wrong, "checks": [asdict(result) for result in results]})
    else:
        out.print(_verdict(results))
    if wrong:
        exit_with(FOUND_SOMETHING)


def _verdict(results: Sequence[CheckResult]) -> str:
    wrong, notes = (sum(result.verdict is verdict for result in results) for verdict in (Verdict.WRONG, Verdict.NOTE))
    if wrong:
        return f"[bold red]{wrong} of {len(results)} are wrong[/]"
    if notes:
        return f"[bold yellow]nothing is wrong; {notes} of {len(results)} are worth a look[/]"
    return "[bold green]all is well[/]"


def _results(command: CommandContext, *, with_spark: bool, patience_s: int | None) -> Iterator[CheckResult]:
    """``patience_s``: the canary's; None: it stays at home."""
    from engine.broker import KafkaBroker
    from floeberg.setup import checks
    from floeberg.setup.daemon_checks import check_daemon, check_doors
    from floeberg.setup.file_checks import check_files
    from floeberg.setup.retention_checks import check_stream_retention
    from floeberg.setup.topic_checks import check_topics

    clock = SystemClock()
    settings = command.settings
    yield good("settings", str(command.settings_file or "from the environment"))
    yield from _as_far_as_they_go("data directory", check_daemon(settings))
    yield from check_doors(settings)
    yield from check_files(settings)
    yield guarded("java", checks.check_java)
    yield guarded("kernels", lambda: checks.warm_up_kernels(clock))
    cluster_id: str | None = None
    leaders: dict[TopicIdPartition, int] | None = None
    broker: KafkaBroker | None = None
    try:
        broker = KafkaBroker(bootstrap=settings.broker.bootstrap, security=settings.broker.security)
        cluster_id = broker.cluster_id()
        yield checks.check_broker(broker, settings)
        leaders = {who: view.leader_id for who, view in broker.partitions(offsets_of=()).items()}
        yield from _native(settings, broker, clock, patience_s)
        yield from check_stream_retention(broker, settings, clock)
    except FloebergError as error:
        yield CheckResult(name="broker", verdict=Verdict.WRONG, message=error.problem, next_step=error.next_step)
    finally:
        if broker is not None:
            broker.close()
    for log_dir in settings.broker.log_dirs:
        yield guarded(f"log directory {log_dir}", lambda path=log_dir: checks.check_log_dir(path, cluster_id))  # type: ignore[misc]
    yield guarded("catalog", lambda: checks.check_catalog(command.catalog, settings.namespace, clock))
    yield from _as_far_as_they_go("tables", checks.check_tables(command.tables, settings, clock))
    yield from _as_far_as_they_go("topics", check_topics(command.tables, settings, clock, leaders=leaders))
    yield guarded("warehouse", lambda: checks.check_warehouse(command.catalog, clock))
    yield from checks.check_schemas(settings, clock)
    if with_spark:
        yield guarded("spark", lambda: _check_spark(command, clock))


def _as_far_as_they_go(name: str, results: Iterator[CheckResult]) -> Iterator[CheckResult]:
    """Some checks; the error that ends them is a wrong one."""
    try:
        yield from results
    except FloebergError as error:
        yield CheckResult(name=name, verdict=Verdict.WRONG, message=error.problem, next_step=error.next_step)


def _native(settings: Settings, broker: Broker, clock: Clock, patience_s: int | None) -> Iterator[CheckResult]:
    from floeberg.daemon.door_token import log_door_tokens
    from floeberg.native.broker_facts import ask_facts
    from floeberg.native.checks import check_native

    facts = ask_facts(broker, settings.broker.log_dirs)
    yield from check_native(broker, facts, settings, log_door_tokens(settings)[0])
    if patience_s is not None:
        from floeberg.daemon.log_output import configure_logging
        from floeberg.native.canary import fly

        configure_logging(level="critical", log_format="text")
        yield from fly(settings, broker, facts, clock, patience_ms=patience_s * 1000, tell=_tell)


def _tell(progress: str) -> None:
    err.print(f"      [dim]canary: {escape(progress)}[/dim]", soft_wrap=True)


def _check_spark(command: CommandContext, clock: SystemClock) -> CheckResult:
    from floeberg.settings.rooms import spark_settings
    from workers.spark_workers import SparkWorkers

    started_ms = clock.monotonic_ms()
    workers = SparkWorkers(spark_settings(command.settings))
    try:
        workers.start()
    finally:
        workers.stop()
    seconds = (clock.monotonic_ms() - started_ms) / 1000
    return good("spark", f"{command.settings.spark.master} started in {seconds:.1f} s")


def _show(result: CheckResult) -> None:
    out.print(f"{_MARKS[result.verdict]} [bold]{escape(result.name)}[/bold]: {escape(result.message)}", soft_wrap=True)
    if result.next_step and result.verdict is not Verdict.GOOD:
        out.print(f"      [dim]next: {escape(result.next_step)}[/dim]", soft_wrap=True)
