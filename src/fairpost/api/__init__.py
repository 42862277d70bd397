"""The HTTP service: authentication, routing and rendering. The actions themselves are in fairpost/actions."""
