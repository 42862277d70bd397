"""What requests and answers look like: a file for each thing. Nothing is read or done here."""
