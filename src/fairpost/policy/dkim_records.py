"""Check whether the DNS record of a DKIM key is published, and if not, which record is published instead."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from fairpost.model.dkim import DkimKey


class Published(StrEnum):
    THERE = "there"
    OTHER = "other"  # a record exists, but has a different key or no key
    MISSING = "missing"
    UNKNOWN = "unknown"  # the DNS query failed


def published(key: DkimKey, records: Sequence[str], *, error: str = "") -> Published:
    if error:
        return Published.UNKNOWN
    if not records:
        return Published.MISSING
    keys = [tags for record in records if "p" in (tags := read_tags(record))]  # receivers may use any of them
    return Published.THERE if keys and all(_fits(key, tags) for tags in keys) else Published.OTHER


def _fits(key: DkimKey, tags: Mapping[str, str]) -> bool:
    is_dkim = tags.get("v", "DKIM1") == "DKIM1" and tags.get("k", "rsa") == key.algorithm
    is_for_mail = "sha256" in tags.get("h", "sha256").split(":") and {"*", "email"} & set(tags.get("s", "*").split(":"))
    return is_dkim and bool(is_for_mail) and tags["p"] == key.public


def read_tags(record: str) -> dict[str, str]:
    """Parse `v=DKIM1; k=rsa; p=…`. Values may contain white space anywhere."""
    pairs = (part.partition("=") for part in record.split(";") if "=" in part)
    return {name.strip().lower(): "".join(value.split()) for name, _, value in pairs}
