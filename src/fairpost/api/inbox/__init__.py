"""The development inbox over HTTP.

Mounted if the extra `local` is installed. Nothing else in the API imports fairpost.dev.
"""
