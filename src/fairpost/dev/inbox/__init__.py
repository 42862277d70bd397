"""The development inbox: a server that accepts any mail, keeps it for inspection and forwards nothing."""
