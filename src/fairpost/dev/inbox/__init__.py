"""The development inbox: a server that takes in any mail, keeps it to be looked at, and sends nothing on to anybody."""
