"""`fairpost secrets`: the key that seals the accounts' passwords."""

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
            "--drop-unreadable", help="Forget the passwords that no key opens: for when a key is lost for good."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Seal every password with a new key.

    Makes the key, unless FAIRPOST_SECRET_KEY gives it; then FAIRPOST_SECRET_KEY_OLD gives the one before. Killed at any
    point it loses nothing: run it again.

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
        typer.echo("nothing to do: there is no key yet. It is made with the first password.")
    else:
        _print(done, vault.keyring)


def _require_key_for_all_regions(settings: Settings, ring: "Keyring") -> None:
    """A key file that is replaced after one region is lost to the others with the rotation after the next."""
    if settings.regions and len(settings.regions) > 1 and not ring.is_given:
        raise FairpostError(
            "Several regions use the key file, and one rotation changes one region. Put a new key (openssl rand -base64 32) "
            f"into FAIRPOST_SECRET_KEY and that of {ring.file} into FAIRPOST_SECRET_KEY_OLD, then run this in every region"
        )


def _print(done: "Rotation", ring: "Keyring") -> None:
    if done.is_resumed:
        typer.echo("finished a rotation that was interrupted")
    already = f" ({done.already} already were)" if done.already else ""
    typer.echo(f"sealed {_passwords(done.resealed)} with the key {done.key_id}{already}")
    for name in done.dropped:
        typer.echo(f"{name} has no password now; give it: fairpost account set {name} --ask-password")
    if not ring.is_given:
        typer.echo(f"the key is in {ring.file}: copy it to the other machines that send from this database")
        if ring.file_old.exists():
            typer.echo(f"the key before is in {ring.file_old}: keep it as long as the backups made with it")
    elif done.resealed:
        typer.echo("FAIRPOST_SECRET_KEY_OLD is not needed any more, except for backups made before")
    else:
        typer.echo(
            "To change the key: put a new one (openssl rand -base64 32) into FAIRPOST_SECRET_KEY, this one into "
            "FAIRPOST_SECRET_KEY_OLD, and run this again"
        )


def _passwords(n: int) -> str:
    return "1 password" if n == 1 else f"{n} passwords"
