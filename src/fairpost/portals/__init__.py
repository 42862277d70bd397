"""The product's own e-mails: portals and types, their files and styles, and the content that workspaces override.

This module contains the names that programs import. The rest of Fairpost imports from the files directly. templates/
reads and renders templates; store/portal_overrides.py stores overrides.
"""

from fairpost.portals.folder import BUILT_IN, BrokenTemplates
from fairpost.portals.loading import load_portals, portals_at
from fairpost.portals.template import Words
from fairpost.portals.workspace import WorkspacePortals

__all__ = ["BUILT_IN", "BrokenTemplates", "Words", "WorkspacePortals", "load_portals", "portals_at"]
