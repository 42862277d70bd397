"""Texts are judged by the facts in them, not by their wording."""


def missing(text: str | None, *facts: object) -> list[str]:
    """The facts that the text does not have. Lines may be wrapped anywhere."""
    given = text or ""
    return [fact for fact in map(str, facts) if fact not in given and fact not in " ".join(given.split())]
