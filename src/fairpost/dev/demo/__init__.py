"""The demo of `fairpost up`: a burst that shows how senders are served, then light traffic that fills every page.

Its e-mails are queued and sent like any other, over SMTP, into the development inbox. Its accounts, workspaces and
pools are named demo or demo-…. The demo changes nothing else and cancels its waiting e-mails at the end.
"""
