"""What a catalog must do with the names of tables: made, renamed, dropped, in namespaces with levels."""

from __future__ import annotations

import pytest

from engine.errors import Corrupt
from engine.table.catalog import access as catalogs
from engine.table.ledger import Outcome
from tests.engine.table.catalog.catalog_under_test import OTHER_ID, CatalogUnderTest
from tests.engine.table.table_examples import (
    TOPIC,
    TOPIC_ID,
    append_of,
    ensure_table,
    outcomes,
)


class NamesSuite:
    """A part of ``CatalogSuite``."""

    def test_table_that_is_not_there_is_none(self, under_test: CatalogUnderTest) -> None:
        writer = under_test.writer()
        assert writer.open(TOPIC, TOPIC_ID) is None
        ensure_table(writer, topic="another")
        assert under_test.writer().open(TOPIC, TOPIC_ID) is None

    def test_two_that_create_a_table_get_the_same_one(self, under_test: CatalogUnderTest) -> None:
        mine, theirs = ensure_table(under_test.writer()), ensure_table(under_test.writer())
        assert mine.location == theirs.location
        catalog, taken = under_test.catalog(), mine.identifier
        assert catalogs.create(catalog, taken, schema=mine.iceberg_schema) is None

    def test_older_incarnation_is_renamed_and_written_to_by_whoever_still_holds_it(
        self, under_test: CatalogUnderTest
    ) -> None:
        stale = under_test.writer()
        old = ensure_table(stale)
        stale.commit(old, [append_of(old, 0, 50)])
        fresh = under_test.writer()
        new = ensure_table(fresh, topic_id=OTHER_ID)
        assert new.location != old.location
        fresh.commit(new, [append_of(new, 0, 10)])
        assert outcomes(stale, old, append_of(old, 50, 60)) == [Outcome.COMMITTED]
        kept = under_test.reopened()
        assert catalogs.is_retired(kept.identifier, TOPIC_ID)
        assert kept.identifier[-1].startswith("orders__")
        assert (under_test.offsets(kept), under_test.offsets(new)) == (list(range(60)), list(range(10)))

    def test_renaming_what_is_gone_or_to_what_is_taken_changes_nothing(self, under_test: CatalogUnderTest) -> None:
        one, two = ensure_table(under_test.writer()), ensure_table(under_test.writer(), topic="two", topic_id=OTHER_ID)
        catalog = under_test.catalog()
        catalogs.rename(catalog, (under_test.namespace, "nobody"), (under_test.namespace, "somebody"))
        catalogs.rename(catalog, one.identifier, two.identifier)
        assert [catalog.table_exists((under_test.namespace, name)) for name in ("orders", "two", "somebody")] == [
            True,
            True,
            False,
        ]

    def test_table_that_was_given_another_name_is_found_and_made_again_under_it(
        self, under_test: CatalogUnderTest
    ) -> None:
        running = under_test.writer()
        table = ensure_table(running)
        catalog, namespace = under_test.catalog(), under_test.namespace
        assert catalogs.given_identifier(catalog, namespace, TOPIC) is None
        catalogs.give_name(catalog, (namespace, "events"), TOPIC)
        catalogs.rename(catalog, table.identifier, (namespace, "events"))
        for writer in (running, under_test.writer()):
            found = writer.open(TOPIC, TOPIC_ID)
            assert found is not None
            assert found.identifier == (namespace, "events")
        assert outcomes(running, table, append_of(table, 0, 10)) == [Outcome.COMMITTED]
        assert ensure_table(under_test.writer(), topic_id=OTHER_ID).identifier == (namespace, "events")
        older = under_test.reopened().identifier
        assert catalogs.is_retired(older, TOPIC_ID)
        assert older[-1].startswith("events__")
        catalogs.give_name(catalog, (namespace, TOPIC), TOPIC)
        assert catalogs.given_identifier(catalog, namespace, TOPIC) is None

    def test_table_that_a_catalog_forgot_is_registered_and_goes_on(self, under_test: CatalogUnderTest) -> None:
        writer = under_test.writer()
        table = ensure_table(writer)
        newest = writer.commit(table, [append_of(table, 0, 10)]).table
        catalog = under_test.catalog()
        catalog.drop_table(table.identifier)
        # Nothing may begin anew over what is left: a new process finds the files, an old one remembers the table.
        with pytest.raises(Corrupt, match="somebody else changed the table: it was dropped"):
            under_test.writer().open(TOPIC, TOPIC_ID)
        with pytest.raises(Corrupt, match="somebody else changed the table: it was dropped"):
            writer.commit(newest, [append_of(newest, 10, 20)])
        catalog.register_table(table.identifier, newest.metadata_location)
        assert under_test.reopened() == newest
        assert outcomes(writer, newest, append_of(newest, 10, 20)) == [Outcome.COMMITTED]
        assert under_test.offsets(table) == list(range(20))

    def test_dropped_name_is_gone_and_its_files_are_left(self, under_test: CatalogUnderTest) -> None:
        writer = under_test.writer()
        table = writer.commit(ensure_table(writer), [append_of(ensure_table(writer), 0, 10)]).table
        catalog = under_test.catalog()
        for _ in range(2):
            catalogs.drop(catalog, table.identifier)
        assert catalogs.load(under_test.catalog(), table.identifier) is None
        assert catalogs.table_names(catalog, table.identifier[:-1]) == []
        assert table.warehouse.read_bytes(table.metadata_location)

    @pytest.mark.parametrize("topic", ["Dots.and-Dashes_0", "t" * 249], ids=["every_character", "longest"])
    def test_every_name_that_kafka_gives_a_topic_is_a_tables_also_of_an_earlier_incarnation(
        self, under_test: CatalogUnderTest, topic: str
    ) -> None:
        writer = under_test.writer()
        old = ensure_table(writer, topic=topic)
        assert outcomes(writer, old, append_of(old, 0, 10)) == [Outcome.COMMITTED]
        new = ensure_table(under_test.writer(), topic=topic, topic_id=OTHER_ID)
        found = under_test.writer().open(topic, TOPIC_ID)
        assert found is not None
        assert catalogs.is_retired(found.identifier, TOPIC_ID)
        assert (under_test.offsets(found), under_test.offsets(new)) == (list(range(10)), [])

    def test_namespace_may_have_levels(self, under_test: CatalogUnderTest) -> None:
        under_test.namespace += ".of.a_cluster"
        writer = under_test.writer()
        table = ensure_table(writer)
        assert outcomes(writer, table, append_of(table, 0, 10)) == [Outcome.COMMITTED]
        seen = under_test.reopened()
        assert seen.identifier == (*under_test.namespace.split("."), TOPIC)
        assert catalogs.table_names(under_test.catalog(), seen.identifier[:-1]) == [seen.identifier]
        assert under_test.offsets(seen) == list(range(10))
