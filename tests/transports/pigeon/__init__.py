"""A kind of transport that the program does not know: what docs/transports.md shows, and a program that has its line."""
