"""Transports: how an account sends. Each kind has its own folder; registry.py lists them.

kind.py      what a kind offers              described.py  its settings as data; options.py turns them into options
port.py      what a worker needs from it     factory.py    builds the transport of a stored account
verify.py    tests an account's server       guarded.py    accounts that are not the operator's own
redirect.py  staging                         oauth/        access tokens for every kind that needs them
"""
