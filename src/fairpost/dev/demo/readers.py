"""The demo's recipients: 150 fictional people at a domain that can never exist."""

from dataclasses import dataclass

DOMAIN = "demo.invalid"
FIRST_NAMES = (
    "Ada", "Ben", "Chloé", "Dmitri", "Esra", "Finn", "Grace", "Hugo", "Ines", "Jun", "Karla", "Liam", "Mei", "Noor", "Olga",
)  # fmt: skip
LAST_NAMES = ("Adler", "Brook", "Costa", "Dahl", "Evans", "Fischer", "Garcia", "Holm", "Ito", "Jensen")
COMPANIES = ("Lantern Books", "Harbour Coffee", "North Mill", "Studio Elf", "Tin Roof", "Meadow & Sons")
CITIES = ("Lisbon", "Hamburg", "Kraków", "Bergen", "Leeds", "Osaka", "Montréal")
PEOPLE = len(FIRST_NAMES) * len(LAST_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    number: int
    first_name: str
    last_name: str
    company: str
    city: str

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}"

    def address(self, *tags: str) -> str:
        """Returns an address.

        `tags` determine how the development inbox treats mail to the address. For example, mail to an address with the
        tag `rcpt-reject` is refused.
        """
        return "+".join((f"reader{self.number}", *tags)) + f"@{DOMAIN}"


def reader(number: int) -> Reader:
    """Returns the recipient with this number. The same number always means the same person. Numbers 0 to 149 have
    different names.
    """
    return Reader(
        number=number,
        first_name=FIRST_NAMES[number % len(FIRST_NAMES)],
        last_name=LAST_NAMES[number // len(FIRST_NAMES) % len(LAST_NAMES)],
        company=COMPANIES[number % len(COMPANIES)],
        city=CITIES[number % len(CITIES)],
    )
