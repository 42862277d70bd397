"""The product's own e-mails: what portals and types there are, their files and styles, and the words that a workspace has of its own.

Here is what programs import; the rest of Fairpost imports from the files themselves. How any template is read and rendered is in templates/,
what is stored in store/portal_overrides.py.
"""

from fairpost.portals.folder import BUILT_IN, BrokenTemplates
from fairpost.portals.loading import load_portals, portals_at
from fairpost.portals.template import Words
from fairpost.portals.workspace import WorkspacePortals

__all__ = ["BUILT_IN", "BrokenTemplates", "Words", "WorkspacePortals", "load_portals", "portals_at"]
