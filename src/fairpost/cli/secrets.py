"""`fairpost secrets`: the key that encrypts account passwords."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act
from fairpost.cli.output import AsJson, print_json
from fairpost.model.errors import FairpostError
from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    from fairpost.vault.keyring import Keyring
    from fairpost.vault.rotation import Rotation

app = typer.Typer(no_args_is_help=True, help="Change the key that encrypts account passwords.")


@app.command("rotate")
def rotate_(
    drop_unreadable: Annotated[
        bool,
        typer.Option(
            "--drop-unreadable",
            help="Delete passwords that no key can decrypt. Use this option if you have lost a key.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Encrypt every password with a new key.

    Creates a new key unless FAIRPOST_SECRET_KEY is set. If FAIRPOST_SECRET_KEY is set, FAIRPOST_SECRET_KEY_OLD must be
    the previous key. If the command is interrupted, no password is lost. Run the command again.

    \b
    Example: fairpost secrets rotate
    """
    from fairpost.actions.installation import RotateSecrets, rotate_secrets
    from fairpost.startup.parts import vault_of

    settings = read_settings()
    vault = vault_of(settings)
    _require_key_for_all_regions(settings, vault.keyring)
    done = act(rotate_secrets, RotateSecrets(vault=vault, drop_unreadable=drop_unreadable), settings=settings)
    if as_json:
        print_json(done)
    elif done is None:
        typer.echo("Nothing to do: there is no key yet. The key is created with the first password.")
    else:
        _print(done, vault.keyring)


def _require_key_for_all_regions(settings: Settings, ring: "Keyring") -> None:
    """Refuse to rotate a key file that several regions share.

    A second rotation would drop the key that regions not yet rotated still need.
    """
    if settings.regions and len(settings.regions) > 1 and not ring.is_given:
        raise FairpostError(
            f"Several regions share the key file, but a rotation changes only one region. Set FAIRPOST_SECRET_KEY to a new key (openssl rand -base64 32) and FAIRPOST_SECRET_KEY_OLD to the key in {ring.file}, then run this command in every region"
        )


def _print(done: "Rotation", ring: "Keyring") -> None:
    if done.is_resumed:
        typer.echo("finished a rotation that was interrupted")
    already = f" ({done.already} already were)" if done.already else ""
    typer.echo(f"sealed {_passwords(done.resealed)} with key {done.key_id}{already}")
    for name in done.dropped:
        typer.echo(f"{name} no longer has a password. Set one: fairpost account set {name} --ask-password")
    for name in done.dropped_keys:
        typer.echo(
            f"{name} can no longer be used to sign mail. To create a new key, see: fairpost domain add-key --help"
        )
    for url in done.dropped_webhooks:
        typer.echo(f"the webhook {url} no longer has a secret. Create one: fairpost webhook rotate --help")
    if not ring.is_given:
        typer.echo(f"the key is in {ring.file}; copy the file to every machine that sends from this database")
        if ring.file_old.exists():
            typer.echo(
                f"the previous key is in {ring.file_old}; keep this file for as long as you keep backups that need it"
            )
    elif done.resealed:
        typer.echo("FAIRPOST_SECRET_KEY_OLD is now only needed for earlier backups")
    else:
        typer.echo(
            "To change the key, set FAIRPOST_SECRET_KEY to a new one (openssl rand -base64 32) and FAIRPOST_SECRET_KEY_OLD to this one, then run this command again"
        )


def _passwords(n: int) -> str:
    return "1 password" if n == 1 else f"{n} passwords"
