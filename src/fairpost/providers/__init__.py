"""Mailbox providers: by what they are known, and the limits that keep an account in their good books."""
