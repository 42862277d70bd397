"""Emulators of services that send mail, for developing and testing without a real mailbox."""
