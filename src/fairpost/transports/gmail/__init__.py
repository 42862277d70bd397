"""The Gmail API, as far as sending needs it: a thin client, and what Google's answers say. No e-mails, no policy."""
