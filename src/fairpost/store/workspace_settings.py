"""Settings that a workspace chooses for itself. A workspace without a row uses the defaults."""

from typing import TYPE_CHECKING

from fairpost.model.workspace import WorkspaceSettings

if TYPE_CHECKING:
    from fairpost.store.store import Store


async def settings_of(store: "Store", workspace: str) -> WorkspaceSettings:
    """Return the settings of a workspace, which need not be registered."""
    row = await store.row(
        """SELECT s.title, s.accent, s.logo_url, s.refuses_bad_domains
           FROM fairpost.workspace_settings s WHERE s.workspace = $1""",
        workspace,
    )
    return WorkspaceSettings(**row) if row else WorkspaceSettings()


async def put_settings(store: "Store", workspace: str, settings: WorkspaceSettings) -> None:
    await store.value(
        """INSERT INTO fairpost.workspace_settings AS s (workspace, title, accent, logo_url, refuses_bad_domains)
           VALUES ($1, $2, $3, $4, $5)
           ON CONFLICT (workspace) DO UPDATE SET title = excluded.title, accent = excluded.accent,
               logo_url = excluded.logo_url, refuses_bad_domains = excluded.refuses_bad_domains""",
        *(workspace, settings.title, settings.accent, settings.logo_url, settings.refuses_bad_domains),
    )
