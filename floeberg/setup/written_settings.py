"""The text of a ``floeberg.toml`` for what was found: what must be set is set, the rest is a comment to begin from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from floeberg.setup.found_setup import FoundBroker, FoundTopic


def settings_text(
    broker: FoundBroker,
    topics: Sequence[FoundTopic],
    *,
    more_topics: int,
    bootstrap: str,
    security: Mapping[str, str],
    registry: str | None,
    doors: Mapping[str, int],
) -> str:
    """``doors``: by section, the ports of those that can't have their own."""
    lines = [
        f"# Written by floeberg init for node {broker.node_id} of the cluster {broker.cluster_id}.",
        "# floeberg check tries all of it, floeberg run begins; examples/floeberg.toml has every setting.",
        "",
        "[broker]",
        f"bootstrap = {_text(bootstrap)}",
        f"log_dirs = [{', '.join(_text(str(log_dir)) for log_dir in broker.log_dirs)}]  # the broker's own log.dirs",
        *(f"{_text(name)} = {_text(value)}" for name, value in security.items()),
        "",
        "# [catalog]                          # without it: tables and catalog under data_dir (docs/settings.md)",
        '# type = "rest"',
        '# uri = "https://catalog:8181"',
        '# warehouse = "s3://bucket/warehouse"',
    ]
    for section, port in doors.items():
        lines += ["", f"[{section}]", f'listen = "127.0.0.1:{port}"  # the usual port is taken on this machine']
    lines += ["", *_topic_lines(topics, more_topics), "", "[[topics]]", 'name = "*"']
    lines += ['value = "auto"                       # found from a topic\'s first values, then fixed in its table']
    if registry is not None:
        lines += [f"schemas = {_text(registry)}"]
    lines += ["# freshness_ms = 60000                # records are in the table after so long; 5000 works as well"]
    return "\n".join(lines) + "\n"


def _topic_lines(topics: Sequence[FoundTopic], more: int) -> list[str]:
    if not topics:
        return ["# No topic has a partition here yet; each gets a table with its first records."]
    width = max(len(topic.name) for topic in topics)
    lines = ["# What the topics here have, by their first values:"]
    lines += [f"#   {topic.name:{width}}  {topic.told}" for topic in topics]
    if more:
        lines += [f"#   and {more} more"]
    example = next((topic.name for topic in topics if topic.guess is not None), topics[0].name)
    return [
        *lines,
        "# A topic that is to be kept in another way gets [[topics]] of its own, before those for all others:",
        "# [[topics]]",
        f"# name = {_text(example)}",
        '# value = "raw"                      # auto, avro, protobuf, json, csv, string or raw',
    ]


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
