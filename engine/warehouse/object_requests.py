"""The seam to S3's own requests: a listing page by page, and deletions by the thousand.

Arrow's file system, by which files are read and written, holds a whole listing in memory and deletes one key a request.
Source: the Amazon S3 API reference, ListObjectsV2 and DeleteObjects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

KEYS_A_REQUEST = 1000
"""S3's own bound, of a page as of a deletion."""

_CONNECT_SECONDS, _ANSWER_SECONDS, _ATTEMPTS = 10, 60, 3
"""A store that is away is told of within minutes; whoever asked tries again later."""


class ListedObject(NamedTuple):
    """An object as a page shows it."""

    key: str
    size_bytes: int
    modified_ms: int


class ObjectRequests:
    """``settings`` as pyiceberg names them (``s3.endpoint``, …). Safe to use from several threads. Raises OSError."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        # A third of a second to import: only for warehouses that need it.
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        virtual = settings.get("s3.force-virtual-addressing", "false").lower() == "true"
        endpoint = settings.get("s3.endpoint")
        self._errors = (BotoCoreError, ClientError)
        self._client = boto3.session.Session().client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=settings.get("s3.access-key-id"),
            aws_secret_access_key=settings.get("s3.secret-access-key"),
            aws_session_token=settings.get("s3.session-token"),
            region_name=settings.get("s3.region"),
            config=Config(
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_ANSWER_SECONDS,
                retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
                s3={"addressing_style": "virtual" if virtual else "path" if endpoint else "auto"},
            ),
        )

    def list(self, bucket: str, prefix: str) -> Iterator[ListedObject]:
        """Every object whose key begins so, by key; a page is asked for when it is wanted.

        Empty objects that stand for folders, as Arrow leaves them where it deletes the last file, are left out.
        """
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=prefix, PaginationConfig={"PageSize": KEYS_A_REQUEST}
        )
        try:
            for page in pages:
                yield from (_listed(one) for one in page.get("Contents", ()) if not one["Key"].endswith("/"))
        except self._errors as error:
            raise OSError(f"the listing of {bucket}/{prefix} failed: {error}") from error

    def delete(self, bucket: str, keys: Sequence[str]) -> dict[str, str]:
        """Delete up to a thousand objects; those that are gone already are no error. What hindered each that stays."""
        assert len(keys) <= KEYS_A_REQUEST, "S3 takes a thousand keys a request"
        asked = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            answer = self._client.delete_objects(Bucket=bucket, Delete=asked)
        except self._errors as error:
            raise OSError(f"a deletion in {bucket} failed: {error}") from error
        return {one["Key"]: f"{one.get('Code')}: {one.get('Message')}" for one in answer.get("Errors", ())}


def _listed(content: Mapping[str, Any]) -> ListedObject:
    modified_ms = int(content["LastModified"].timestamp() * 1000)
    return ListedObject(content["Key"], int(content["Size"]), modified_ms)
