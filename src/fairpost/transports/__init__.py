"""What an account sends through. A folder for each kind, with all that is its own; registry.py names them.

kind.py      what a kind offers              described.py  its settings, as data; options.py makes options of them
port.py      what a worker asks of it        factory.py    from an account as it is stored to its transport
verify.py    an account's server is tried    guarded.py    accounts of others than the operator
redirect.py  staging                         oauth/        access tokens, for every kind that needs them
"""
