"""``floeberg check``: tries every setting and connection before the daemon does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from engine.clock import SystemClock
from engine.errors import FloebergError
from floeberg.check_result import CheckResult, Verdict, good, guarded
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import out, print_json

_MARKS = {
    Verdict.GOOD: "[green]ok[/green]   ",
    Verdict.NOTE: "[yellow]note[/yellow] ",
    Verdict.WRONG: "[red]wrong[/red]",
}


def check(
    context: typer.Context,
    spark: Annotated[bool, typer.Option(help="Also start Spark (some seconds).")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Try every setting and connection, warm the kernels up, and say what is wrong with the next step."""
    results = []
    for result in _results(CommandContext.of(context), with_spark=spark):
        results.append(result)
        if not as_json:
            _show(result)
    wrong = [result for result in results if result.verdict is Verdict.WRONG]
    if as_json:
        print_json({"good": not wrong, "checks": [asdict(result) for result in results]})
    else:
        out.print(f"[bold red]{len(wrong)} of {len(results)} are wrong[/]" if wrong else "[bold green]all is well[/]")
    if wrong:
        exit_with(FOUND_SOMETHING)


def _results(command: CommandContext, *, with_spark: bool) -> Iterator[CheckResult]:
    from engine.broker import KafkaBroker
    from floeberg import setup_checks as checks

    clock = SystemClock()
    settings = command.settings
    yield good("settings", str(command.settings_file or "from the environment"))
    yield guarded("java", checks.check_java)
    yield guarded("kernels", lambda: checks.warm_up_kernels(clock))
    cluster_id: str | None = None
    broker: KafkaBroker | None = None
    try:
        broker = KafkaBroker(bootstrap=settings.broker.bootstrap, security=settings.broker.security)
        cluster_id = broker.cluster_id()
        yield checks.check_broker(broker, settings)
        yield checks.check_plugin(broker, settings)
    except FloebergError as error:
        yield CheckResult(name="broker", verdict=Verdict.WRONG, message=error.problem, next_step=error.next_step)
    finally:
        if broker is not None:
            broker.close()
    for log_dir in settings.broker.log_dirs:
        yield guarded(f"log directory {log_dir}", lambda path=log_dir: checks.check_log_dir(path, cluster_id))  # type: ignore[misc]
    yield guarded("catalog", lambda: checks.check_catalog(command.catalog, settings.namespace))
    yield guarded("warehouse", lambda: checks.check_warehouse(command.catalog, clock))
    yield from checks.check_schemas(settings, clock)
    if with_spark:
        yield guarded("spark", lambda: _check_spark(command, clock))


def _check_spark(command: CommandContext, clock: SystemClock) -> CheckResult:
    from floeberg.room_settings import spark_settings
    from tiering.spark_rewrite import SparkRewriter

    started_ms = clock.monotonic_ms()
    rewriter = SparkRewriter(spark_settings(command.settings))
    try:
        rewriter.start()
    finally:
        rewriter.close()
    seconds = (clock.monotonic_ms() - started_ms) / 1000
    return good("spark", f"{command.settings.spark.master} started in {seconds:.1f} s")


def _show(result: CheckResult) -> None:
    out.print(f"{_MARKS[result.verdict]} [bold]{escape(result.name)}[/bold]: {escape(result.message)}", soft_wrap=True)
    if result.next_step and result.verdict is not Verdict.GOOD:
        out.print(f"      [dim]next: {escape(result.next_step)}[/dim]", soft_wrap=True)
