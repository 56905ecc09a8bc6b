"""What ``floeberg check`` tries, one function a part: each says what it found and, where it is wrong, what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pyiceberg.catalog import Catalog

from engine.broker import Broker
from engine.clock import Clock
from engine.errors import Invalid, Unavailable
from engine.formats.format_facts import AUTO, facts_of, format_of_schema_file, formats_with_schemas
from engine.kafka_log.log_directory import scan_log_directories
from engine.schemas.folder import SchemaFolder, read_schema
from engine.schemas.http import RegistryHttp
from engine.schemas.registry import SchemaRegistry
from engine.schemas.source import Role
from engine.table.catalog import access as catalogs
from engine.table.catalog.rest import BoundedRestCatalog
from engine.table.commit.clock_refusal import AHEAD_TOLERATED_MS, CLOCK_NEXT_STEP, ahead_problem
from engine.table.topic_table import TopicTable
from floeberg.java.jdk import java_command, java_version
from floeberg.kernels import compile_kernels, load_kernels, tell_person
from floeberg.native.broker_facts import meta_properties
from floeberg.settings import Settings
from floeberg.settings.registry import RegistrySettings
from floeberg.settings.rooms import topic_rules
from floeberg.settings.schema_sources import SchemaSources, registry_access, subject_rule
from floeberg.settings.topic import TopicSettings
from floeberg.setup.check_result import CheckResult, Verdict, good, guarded, note
from floeberg.tables.topic_tables import TopicTables
from serving.status.page import count_text
from tiering.spool import SPOOL_SUFFIX
from topics.topic_rule import TopicRule


def check_java() -> CheckResult:
    command = java_command()
    return good("java", f"Java {java_version(command)} at {command}")


def warm_up_kernels(clock: Clock) -> CheckResult:
    """Compile the kernels of all formats now rather than when a topic needs them; where they are kept, load them."""
    started_ms = clock.monotonic_ms()
    compile_kernels(tell=tell_person)
    load_kernels()
    return good("kernels", f"ready in {(clock.monotonic_ms() - started_ms) / 1000:.1f} s")


def check_broker(broker: Broker, settings: Settings) -> CheckResult:
    cluster_id, nodes = broker.cluster_id(), broker.node_ids()
    count = len(broker.partitions(offsets_of=()))
    counts = f"{count_text(len(nodes), 'broker')}, {count_text(count, 'partition')}"
    return good("broker", f"cluster {cluster_id} at {settings.broker.bootstrap}: {counts}")


def check_log_dir(log_dir: Path, cluster_id: str | None) -> CheckResult:
    """The directory is a broker's, of the same cluster, can be read, and the spool beside it can be written."""
    name = f"log directory {log_dir}"
    found = meta_properties(log_dir).get("cluster.id")
    if cluster_id is not None and found != cluster_id:
        raise Invalid(
            f"it belongs to cluster {found}, the broker answers for {cluster_id}",
            next_step="let [broker] bootstrap and log_dirs name the same broker",
        )
    scan = scan_log_directories([log_dir])
    if scan.problems:
        raise scan.problems[0]
    spool = log_dir.with_name(log_dir.name + SPOOL_SUFFIX)
    writable = spool if spool.exists() else spool.parent
    if not os.access(writable, os.W_OK | os.X_OK):
        return note(
            name,
            f"{len(scan.live)} partitions; the spool {spool} can't be written, so that in watch mode Kafka's retention"
            " may be faster than tiering",
            f"let the daemon's user write {writable}, on the same file system as the log directory",
        )
    return good(name, f"{len(scan.live)} partitions, the spool beside it can be written")


def check_catalog(catalog: Catalog, namespace: str, clock: Clock) -> CheckResult:
    parts = tuple(namespace.split("."))
    with catalogs.translated_errors("the catalog does not answer"):
        count = len(catalog.list_tables(parts)) if catalog.namespace_exists(parts) else 0
        ahead_ms = catalog.clock_ahead_ms(clock) if isinstance(catalog, BoundedRestCatalog) else None
    if ahead_ms is not None and ahead_ms > AHEAD_TOLERATED_MS:
        raise Unavailable(ahead_problem(ahead_ms), next_step=CLOCK_NEXT_STEP)
    return good("catalog", f"{type(catalog).__name__} answers; namespace {namespace} has {count} tables")


def check_warehouse(catalog: Catalog, clock: Clock) -> CheckResult:
    """Write a small file, read it back, remove it."""
    root = str(catalog.properties.get("warehouse", ""))
    if "://" not in root and not root.startswith("/"):
        return note("warehouse", "the catalog alone knows where its warehouse is; the first table will show")
    warehouse = catalogs.warehouse_of(catalog)
    probe, content = f"{root.rstrip('/')}/floeberg-check-{clock.new_id()}", b"floeberg check"
    warehouse.write_bytes(probe, content)
    try:
        if warehouse.read_bytes(probe) != content:
            raise Unavailable("what was written to the warehouse does not come back", file=probe)
    finally:
        warehouse.delete(probe)
    return good("warehouse", f"{root} can be written, read and cleaned")


def check_tables(tables: TopicTables, settings: Settings, clock: Clock) -> Iterator[CheckResult]:
    """The tables that can't be read, those that were made for other settings, and those that can't be clustered by the
    columns that the settings name. Raises Unavailable."""
    with closing(SchemaSources(settings.data_dir, clock)) as sources:
        rules = topic_rules(settings, sources)
    is_good = True
    for one in tables.listed():
        if one.table is not None:
            rule = tables.rule_for(one.table, rules)
            results = [] if rule is None else list(_check_table(one.table, rule))
        else:
            results = [
                CheckResult(
                    name=f"table {'.'.join(one.identifier)}",
                    verdict=Verdict.WRONG,
                    message=str(one.error),
                    next_step="floeberg fsck names what is damaged",
                )
            ]
        yield from results
        is_good = is_good and not results
    if is_good:
        yield good("tables", "all can be read, and the settings are those that they were made for")


def _check_table(table: TopicTable, rule: TopicRule) -> Iterator[CheckResult]:
    try:
        rule.check_table(table)
    except Invalid as error:
        name = f"table of {table.topic}"
        yield CheckResult(name=name, verdict=Verdict.WRONG, message=error.problem, next_step=error.next_step)
    if rule.clustering is None:
        return
    left = rule.clustering.within(table.facts.schema)
    what = "its rows stay in stream order" if left is None else f"it is clustered by {', '.join(left.columns)} alone"
    for problem in rule.clustering.problems(table.facts.schema).values():
        yield note(f"cluster_by of {table.topic}", f"{problem.problem}; {what}", problem.next_step)


def check_schemas(settings: Settings, clock: Clock) -> Iterator[CheckResult]:
    """The schema source of each topic rule that has one."""
    for rule in settings.topics:
        if rule.schemas is not None:
            name = f"schemas of {rule.name}"
            yield guarded(name, lambda name=name, rule=rule: _check_source(name, rule, clock))  # type: ignore[misc]


def _check_source(name: str, rule: TopicSettings, clock: Clock) -> CheckResult:
    if rule.registry is not None:
        return _check_registry(name, rule, rule.registry, clock)
    assert rule.schema_path is not None, "schemas are in a registry or in files"
    alone = format_of_schema_file(rule.schema_path)
    if alone is not None:
        read_schema(rule.schema_path, alone, rule.schema_path.parent)
        return good(name, f"the schema {rule.schema_path} can be used")
    formats = formats_with_schemas() if rule.value == AUTO else sorted({rule.value, rule.key})
    endings = {one: facts_of(one).schema_endings for one in formats}
    wanted = " or ".join(f"<id>{ending}" for some in endings.values() for ending in some)
    if not rule.schema_path.is_dir():
        raise Invalid(f"there is no folder {rule.schema_path}", next_step=f"make it, and put {wanted} files into it")
    return _check_folder(name, rule.schema_path, endings, wanted)


def _check_folder(name: str, folder: Path, endings: Mapping[str, Sequence[str]], wanted: str) -> CheckResult:
    source, count = SchemaFolder(folder), 0
    for schema_format, ends in endings.items():
        ids = {path.name.removesuffix(end) for end in ends for path in folder.glob(f"*{end}")}
        for schema_id in sorted(int(found) for found in ids if found.isdecimal()):
            source.get(schema_id, schema_format)
            count += 1
    if not count:
        return note(name, f"{folder} has no {wanted} file yet: records will keep their bytes until it does")
    return good(name, f"{count} schemas in {folder} can be used")


def _check_registry(name: str, rule: TopicSettings, settings: RegistrySettings, clock: Clock) -> CheckResult:
    registry = SchemaRegistry(RegistryHttp(registry_access(settings), clock))
    count = len(registry.subjects(""))
    answers = f"{count} subjects at {', '.join(settings.url)}"
    if not settings.use_latest or rule.value == AUTO or any(letter in rule.name for letter in "*?["):
        return good(name, answers)
    subjects = subject_rule(settings)
    names = subjects.subjects(rule.name, Role.VALUE, lambda: registry.subjects(f"{rule.name}-"))
    found = [registry.newest(subject, subjects.metadata, rule.value) for subject in names]
    if not any(found):
        return note(
            name,
            f"{answers}, none of them with a schema for the topic's columns yet",
            f"use_latest looks at {' and '.join(names) or f'{rule.name}-<record>'}: does subject_strategy fit?",
        )
    return good(name, f"{answers}; the newest for {rule.name} can be used")
