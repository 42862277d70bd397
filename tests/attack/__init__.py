"""Attacks on the walls, as tables that are easy to extend.

- A new kind of caller over HTTP: a line in callers.py. It is tried on every route with every id of another workspace.
- A new login of the database: a line in logins.py. It is tried on every function with everything of another workspace.
- A new way in for mail: a line in `WAYS` of test_forged_from.py.
- A new flood: a test in test_floods.py.

`make test` runs them in a form of seconds, `make attack` with ten times as many tries, together with all tests marked `attack`.
"""
