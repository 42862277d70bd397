"""The naive approach, for comparison: take a row, build an EmailMessage, send it with aiosmtplib, and mark it as sent.
There is one commit per e-mail.
"""

import asyncio
import json
import sys
from email.message import EmailMessage
from email.policy import SMTP

from fairpost.store.connections import connect


async def main(url: str, host: str, port: int, tasks: int) -> None:
    await asyncio.gather(*(carry(url, host, port) for _ in range(tasks)))


async def carry(url: str, host: str, port: int) -> None:
    import aiosmtplib

    conn = await connect(url, answer_s_max=None)
    client = aiosmtplib.SMTP(hostname=host, port=port, start_tls=False)
    await client.connect()
    while True:
        async with conn.transaction():
            row = await conn.fetchrow(
                "SELECT id, email FROM mail WHERE NOT sent ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
            )
            if row is None:
                return
            await client.send_message(_message(json.loads(row["email"])))
            await conn.execute("UPDATE mail SET sent = true WHERE id = $1", row["id"])


def _message(email: dict[str, str]) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    message["From"] = "bench@example.com"
    message["To"] = email["to"]
    message["Subject"] = email["subject"]
    message.set_content(email["text"])
    message.add_alternative(email["html"], subtype="html")
    return message


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
