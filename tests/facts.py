"""Checks texts by the facts in them, not by their wording."""


def missing(text: str | None, *facts: object) -> list[str]:
    """Returns the facts that the text lacks. Lines may be wrapped anywhere."""
    given = text or ""
    return [fact for fact in map(str, facts) if fact not in given and fact not in " ".join(given.split())]
