"""A kind of transport that the program does not know: the example in docs/transports.md, and a program that registers
it."""
