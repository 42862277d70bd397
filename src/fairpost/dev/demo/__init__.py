"""The demonstration of `fairpost up`: a rush that shows who is served when, and then quiet days that fill every page.

Its e-mails are queued and sent like anybody's, over SMTP, into the development inbox. Its accounts, workspaces and pools are
called demo or demo-…; it touches nothing else, and what is still waiting when it ends is cancelled.
"""
