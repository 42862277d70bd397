"""Mailbox providers: how they are recognized, and safe limits for accounts."""
