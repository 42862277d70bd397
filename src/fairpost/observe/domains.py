"""The health of sending domains as of their last check, shared by the commands, the doctor, the page and the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairpost.model.reason import Reason
from fairpost.policy.domain_health import DnsRecord, Finding, Grade, worst
from fairpost.store import workspaces
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainHealth:
    workspace: str
    domain: str
    findings: tuple[Finding, ...]
    at: datetime

    @property
    def grade(self) -> Grade:
        return worst(self.findings)


async def read_health(store: Store, *, workspace: str | None = None) -> list[DomainHealth]:
    """Returns the health of one workspace's domains, or of all domains."""
    found = await workspaces.health(store, workspace=workspace)
    return [
        DomainHealth(workspace=name, domain=domain, findings=tuple(_finding(each) for each in findings), at=at)
        for name, domain, findings, at in found
    ]


def _finding(stored: Mapping[str, Any]) -> Finding:
    """Parses stored findings. Findings stored by older versions contain no DNS record."""
    record = stored.get("record")
    return Finding(
        what=stored["what"],
        grade=Grade(stored["grade"]),
        reason=Reason(stored["code"], **stored["params"]),
        record=DnsRecord(**record) if record else None,
    )
