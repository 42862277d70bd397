"""The Gmail API, as far as it is needed for sending: a thin client, and a parser for the responses."""
