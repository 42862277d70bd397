"""Checks the quality of a composed message: problems that a receiver or a reader would notice. No I/O.

reading.py   the message as a mail program reads it     markup.py   words, links and images of its HTML
check.py     runs all checks, which have a file each    findings.py their results
"""
