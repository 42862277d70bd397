"""The development inbox over HTTP. It is mounted where the extra `local` is installed: nothing else in the API knows of fairpost.dev."""
