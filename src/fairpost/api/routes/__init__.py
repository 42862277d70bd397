"""What can be asked, a file for each thing."""
