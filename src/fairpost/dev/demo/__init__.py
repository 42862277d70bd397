"""The demo of `fairpost up`: a burst that shows how senders are served, then light traffic that fills every page.

The demo's e-mails are queued like all other e-mails and sent over SMTP to the development inbox. The demo's accounts,
workspaces and pools are named demo or demo-…. The demo changes nothing else and cancels its waiting e-mails at the end.
"""
