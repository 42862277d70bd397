"""Emulators of the services that mail goes out through: to develop and to test without a real mailbox."""
