"""Check whether the DNS record of a DKIM key is published, and if not, what is published instead."""

from collections.abc import Sequence
from enum import StrEnum

from fairpost.model.dkim import DkimKey


class Published(StrEnum):
    THERE = "there"
    OTHER = "other"  # a record exists, with another key or none
    MISSING = "missing"
    UNKNOWN = "unknown"  # the DNS did not answer


def published(key: DkimKey, records: Sequence[str], *, error: str = "") -> Published:
    if error:
        return Published.UNKNOWN
    if not records:
        return Published.MISSING
    return Published.THERE if any(_fits(key, record) for record in records) else Published.OTHER


def _fits(key: DkimKey, record: str) -> bool:
    tags = read_tags(record)
    is_dkim = tags.get("v", "DKIM1") == "DKIM1" and tags.get("k", "rsa") == key.algorithm
    return is_dkim and tags.get("p") == key.public


def read_tags(record: str) -> dict[str, str]:
    """Parse `v=DKIM1; k=rsa; p=…`, which may have white space anywhere in the values."""
    pairs = (part.partition("=") for part in record.split(";") if "=" in part)
    return {name.strip().lower(): "".join(value.split()) for name, _, value in pairs}
