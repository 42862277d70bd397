"""Reads e-mails as JSON and adds them to the queue of the app in the Django settings."""

import json
import sys

import django
from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection

django.setup()
emails = json.load(sys.stdin)

if "mailer" in settings.INSTALLED_APPS:
    messages = [EmailMultiAlternatives(e["subject"], e["text"], e["sender"], [e["to"]]) for e in emails]
    for message, email in zip(messages, emails, strict=True):
        message.attach_alternative(email["html"], "text/html")
    get_connection().send_messages(messages)
else:
    from post_office import mail  # type: ignore[import-not-found]

    mail.send_many(
        [
            {
                "recipients": [email["to"]],
                "sender": email["sender"],
                "subject": email["subject"],
                "message": email["text"],
                "html_message": email["html"],
            }
            for email in emails
        ]
    )
