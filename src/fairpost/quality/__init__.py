"""Checks a composed message for problems that a receiving server or a reader would notice. Performs no I/O.

reading.py   the message as a mail program reads it     markup.py   words, links and images of its HTML
check.py     runs all checks, which have a file each    findings.py their results
"""
