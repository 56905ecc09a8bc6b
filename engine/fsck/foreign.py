"""What another program did to a table, as a check sees it: changes that nobody has judged yet, and adopted ranges."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import Corrupt, FloebergError, Unavailable
from engine.fsck.file import CheckedFile, ListedFile
from engine.fsck.report import Damage, Finding, Severity
from engine.records.digest import EMPTY_DIGEST, digest_of
from engine.table.foreign.adopted_rows import adopted_records
from engine.table.foreign.examination import broken, examine_files, gather_in_process
from engine.table.manifests import TableFile
from engine.table.topic_table import SOMEBODY_ELSE, TopicTable


def judge_foreign_change(table: TopicTable) -> tuple[TopicTable, list[Finding]]:
    """The table with what can be adopted of a change, and findings that name the change. Raises Unavailable."""
    change = table.foreign
    if change is None:
        return table, []
    if change.rules_edited:
        told = broken(table, change, "no row can be turned back into its record")
        return table, [_finding(table, told.problem, told.next_step or "")]
    try:
        findings = examine_files(table, change, gather_in_process) if change.files_changed else None
    except Corrupt as error:
        return table, [_finding(table, f"{SOMEBODY_ELSE}: {change}: {error.problem}", "", file=error.file)]
    found = []
    for difference in findings.differences if findings is not None else ():
        told = broken(table, change, str(difference), difference=difference)
        finding = _finding(table, told.problem, told.next_step or "", file=difference.file)
        found.append(replace(finding, partition=difference.partition, range=difference.range))
    if change.properties_changed or change.uuid_changed:
        told = broken(table, change, "what its ledger says is not what Floeberg wrote")
        found.append(_finding(table, told.problem, told.next_step or ""))
    if change.stream_changed is not None:
        told = broken(table, change, "consumers would miss what that branch listed")
        found.append(_finding(table, told.problem, told.next_step or ""))
    if not found:
        message = f"{SOMEBODY_ELSE}: {change}; every record is there, the next cycle of tiering records it"
        found.append(_finding(table, message, "nothing, while a daemon tiers this topic", severity=Severity.WARNING))
    adopted = {} if findings is None else findings.adopted
    return replace(table, adopted={**table.adopted, **adopted}), found


def check_adopted(table: TopicTable, range_file: TableFile) -> CheckedFile:
    """Read an adopted range as its consumers would, and compare it with its proof. Raises Unavailable."""
    proven = next(part.digest for part in table.adopted[range_file.partition] if part.range == range_file.range)
    listed = ListedFile(
        path=range_file.parts[0].path,
        partition=range_file.partition,
        record_count=range_file.record_count,
        size_bytes=sum(part.size_bytes for part in range_file.parts),
        claims={},
    )
    digest, problem = EMPTY_DIGEST, None
    try:
        for records in adopted_records(table, range_file, range_file.range):
            digest = digest.then(digest_of(records))
        if digest != proven:
            problem = f"its rows have the digest {digest.to_text()}, it was adopted with {proven.to_text()}"
    except Unavailable:
        raise
    except FloebergError as error:
        problem = error.problem
    findings: tuple[Finding, ...] = ()
    if problem is not None:
        finding = _finding(table, problem, "restore the file from a copy of the warehouse", file=listed.path)
        finding = replace(finding, damage=Damage.DAMAGED_FILE, partition=listed.partition, range=range_file.range)
        findings = (finding,)
    return CheckedFile(listed=listed, range=range_file.range, digest=digest, findings=findings, adopted=range_file)


def _finding(
    table: TopicTable,
    message: str,
    next_step: str,
    *,
    file: str | None = None,
    severity: Severity = Severity.ERROR,
) -> Finding:
    return Finding(
        damage=Damage.FOREIGN_CHANGE,
        message=message,
        next_step=next_step or "look at the catalog and the warehouse",
        topic=table.topic,
        file=file or table.metadata_location,
        severity=severity,
    )
