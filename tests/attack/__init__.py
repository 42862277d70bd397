"""Attacks on the isolation of workspaces, as tables that are easy to extend.

- A new kind of HTTP caller is a line in callers.py. It is tried on every route with every id of another workspace.
- A new database login is a line in logins.py. It is tried on every function with everything of another workspace.
- A new way in for mail is a line in `WAYS` of test_forged_from.py.
- A new flood is a test in test_floods.py.

`make test` runs them for seconds; `make attack` makes ten times as many tries, and runs all tests marked `attack`.
"""
