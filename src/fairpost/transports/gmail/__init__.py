"""The parts of the Gmail API that Fairpost needs: a thin client and a parser for responses."""
