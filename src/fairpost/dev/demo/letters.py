"""The e-mails of the demo's senders: orders, codes, newsletters, notes, and some with mistakes.

Each letter is an e-mail in the form that `enqueue` accepts, but without a pool. No two letters are the same, and the
same dice produce the same letters.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from fairpost.dev.demo.readers import DOMAIN, PEOPLE, Reader, reader
from fairpost.dev.demo.stage import ANN, CLUB, FLOOD, SHOP
from fairpost.portals.loading import Portals
from fairpost.system.chance import Dice
from fairpost.templates.rendering import Rendered

Letter: TypeAlias = dict[str, Any]

BOUNCES_EVERY = 25  # one letter in 25 is sent to a new address that is refused
RETRIES_EVERY = 31  # one letter in 31 is sent to an address that is sometimes busy
FAILS_EVERY = 29  # one letter in 29 is sent to an address that is always busy
GONE_EVERY = 48  # one letter in 48 is sent to the same refused address, which is suppressed after the first e-mail
GONE = reader(3)

LOGO = (  # a dot in two colours
    "iVBORw0KGgoAAAANSUhEUgAAACgAAAAoCAMAAAC7IEhfAAAACVBMVEX///+aNBIpJSSPcVRzAAAAXUlEQVR42tXVMQ6AMBTD0Hzf"
    "/9CMSLS0BgoSnt+cJJ+EMXtODS0oST/rGglOgpQWgpMg5XIIUq6HNe8arFoo8xsY616AsW4icwfGuoFsNsW6Pj3ZPesOVuxzPTmA"
    "Db0aBZJ/NrHiAAAAAElFTkSuQmCC"
)
GOODS = (("a pound of coffee", 12), ("the blue teapot", 34), ("a box of candles", 9), ("linen napkins", 21))


class Letters:
    def __init__(self, portals: Portals, dice: Dice) -> None:
        self._portals = portals
        self._dice = dice
        self._kinds: tuple[Callable[[Reader, int], Letter], ...] = (
            *(self._order, self._code, self._note, self._order, self._shipped, self._newsletter),
            *(self._code, self._report, self._order, self._welcome, self._careless, self._newsletter),
        )

    def letter(self, number: int, *, now: datetime) -> Letter:
        """Returns a letter. The number determines the subject, and the dice determine the recipient."""
        to = GONE if _is_last(number, GONE_EVERY) else reader(self._below(PEOPLE))
        letter = self._kinds[number % len(self._kinds)](to, 1000 + self._below(9000))
        letter["to"] = f"{to.name} <{to.address(*_tags(number, now))}>"
        if _is_last(number, FAILS_EVERY):
            letter["attempts_max"] = 2
        return letter

    def _below(self, end: int) -> int:
        return int(self._dice() * end)

    # ── content ───────────────────────────────────────────────────────────────────────────────────────────

    def _order(self, to: Reader, serial: int) -> Letter:
        goods, price = GOODS[serial % len(GOODS)]
        count = 1 + serial % 3
        total = f"€{count * price}.00"
        return {
            "workspace": SHOP,
            "user": "till",
            "subject": f"Your order {serial}: {count} × {goods}",
            "from": f"Corner Shop <orders@{DOMAIN}>",
            "text": f"Dear {to.first_name},\n\nthank you for your order {serial}: {count} × {goods}, {total}.\n"
            f"It leaves for {to.city} tomorrow.\n\nThe Corner Shop",
            "html": _page(
                f"Thank you, {to.first_name}",
                f"<table><tr><td>{count} × {goods}</td><td>{total}</td></tr></table><p>It leaves for {to.city} tomorrow.</p>"
                f'<p><a href="https://shop.{DOMAIN}/orders/{serial}">See your order {serial}</a></p>',
            ),
        }

    def _shipped(self, to: Reader, serial: int) -> Letter:
        """Returns a letter with an image in the HTML and an attachment."""
        goods, price = GOODS[serial % len(GOODS)]
        invoice = f"order,goods,price\r\n{serial},{goods},{price}.00\r\n"
        return {
            "workspace": SHOP,
            "user": "warehouse",
            "subject": f"On its way to {to.city}: {goods}",
            "from": f"Corner Shop <orders@{DOMAIN}>",
            "text": f"Dear {to.first_name},\n\nyour parcel {serial} has left. The invoice is attached.\n\nThe Corner Shop",
            "html": _page(
                f'<img src="cid:logo" alt="Corner Shop" width="40" height="40"> On its way, {to.first_name}',
                f"<p>Your parcel {serial} has left. The invoice is attached.</p>",
            ),
            "attachments": [
                {"filename": "logo.png", "content_type": "image/png", "inline_id": "logo", "data": LOGO},
                {
                    "filename": f"invoice-{serial}.csv",
                    "content_type": "text/csv",
                    "data": b64encode(invoice.encode()).decode(),
                },
            ],
        }

    def _code(self, to: Reader, serial: int) -> Letter:
        values = {"first_name": to.first_name, "code": f"{serial * 97 % 1_000_000:06}", "place": to.city}
        return {
            "workspace": SHOP if serial % 2 else CLUB,
            "user": "sign-in",
            "class": "urgent",
            **_words(self._portals.render("hub", "tfa", values)),
        }

    def _welcome(self, to: Reader, serial: int) -> Letter:
        values = {"first_name": to.first_name, "sign_in_url": f"https://club.{DOMAIN}/sign-in"}
        return {
            "workspace": CLUB,
            "user": "desk",
            "stream": "welcome",
            **_words(self._portals.render("hub", "welcome", values)),
        }

    def _newsletter(self, to: Reader, serial: int) -> Letter:
        leave = f"https://club.{DOMAIN}/leave?who={to.number}"
        return {
            "workspace": CLUB,
            "user": "editors",
            "stream": "newsletter",
            "subject": f"What {to.city} reads this week",
            "from": f"The Reading Club <news@{DOMAIN}>",
            "headers": {"List-Unsubscribe": f"<{leave}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
            "text": f"Hello {to.first_name},\n\nthree books, two talks, and a walk on Sunday.\n\nTo unsubscribe: {leave}",
            "html": _page(
                f"Hello {to.first_name}",
                "<ul><li>Three books that are worth the rain</li><li>Two talks, on Tuesday and on Friday</li>"
                f'<li>A walk on Sunday</li></ul><p><small><a href="{leave}">No more of these</a></small></p>',
            ),
        }

    def _note(self, to: Reader, serial: int) -> Letter:
        return {
            "workspace": ANN,
            "user": "ann",
            "subject": f"Lunch on {('Monday', 'Tuesday', 'Friday')[serial % 3]}?",
            "from": f"Ann Lee <ann@{DOMAIN}>",
            "text": f"Hi {to.first_name},\n\nI am in {to.city} this week. Shall we have lunch?\n\nAnn",
        }

    def _report(self, to: Reader, serial: int) -> Letter:
        return {
            "workspace": FLOOD,
            "user": "reports",
            "stream": "reports",
            "subject": f"Your figures for this hour: {serial} visits",
            "text": f"{to.company} had {serial} visits, {serial // 17} of them from {to.city}.",
            "html": _page(to.company, f"<p><b>{serial}</b> visits, {serial // 17} of them from {to.city}.</p>"),
        }

    def _careless(self, to: Reader, serial: int) -> Letter:
        """Returns a letter with mistakes for the inbox to find: an empty field, an unencrypted link, an image without a
        description, and a missing text part.
        """
        return {
            "workspace": CLUB,
            "user": "intern",
            "stream": "reminders",
            "subject": "Last chance, {{ first_name }}!!!",
            "html": "<p>Dear {{ first_name }},</p><p>your seat is waiting:"
            f' <a href="http://club.{DOMAIN}/seats/{serial}">click here</a></p><img src="http://club.{DOMAIN}/seat.png">',
        }


def _is_last(number: int, every: int) -> bool:
    return number % every == every - 1


def _tags(number: int, now: datetime) -> tuple[str, ...]:
    if _is_last(number, GONE_EVERY):
        return ("rcpt-reject",)
    if _is_last(number, FAILS_EVERY):
        return ("dot-tempfail",)
    if _is_last(number, RETRIES_EVERY):
        return ("dot-tempfail%60",)
    if _is_last(number, BOUNCES_EVERY):
        return (f"{now:%d%H%M%S}", "rcpt-reject")
    return ()


def in_doubt() -> Letter:
    """Returns a letter that the inbox accepts, although the connection ends before the reply. Whether to resend the
    letter must be decided manually.
    """
    to = reader(42)
    return {
        "workspace": SHOP,
        "user": "till",
        "stream": "payments",
        "on_doubt": "hold",
        "to": f"{to.name} <{to.address('dot-cut-after')}>",
        "from": f"Corner Shop <orders@{DOMAIN}>",
        "subject": "We have received your payment of €120.00",
        "text": f"Dear {to.first_name},\n\nthank you: your payment of €120.00 has arrived.\n\nThe Corner Shop",
    }


def held_back(number: int) -> Letter:
    to = reader(number)
    return {
        "workspace": CLUB,
        "user": "max",
        "stream": "offers",
        "to": f"{to.name} <{to.address()}>",
        "subject": f"{to.first_name}, you have been chosen",
        "text": "A prize is waiting for you. Answer within the hour.",
    }


def _words(said: Rendered) -> Mapping[str, str]:
    words = {"subject": said.subject, "text": said.text, "html": said.html}
    return {part: text for part, text in words.items() if text is not None}


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><body style="font-family: sans-serif; max-width: 36em; margin: 2em auto">'
        f"<h1>{title}</h1>{body}</body></html>"
    )
