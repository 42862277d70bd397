"""What the content check found in a message."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import ResponseModel
from fairpost.quality.findings import Level


class FindingOut(ResponseModel):
    level: Level
    what: str
    code: Annotated[str, Field(description="The code of the finding, for programs: see docs/inbox.md.")]
    text: Annotated[str, Field(description="The finding, and what to do about it.")]
