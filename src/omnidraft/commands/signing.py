"""`omnidraft keygen`, `sign` and `verify`: make keys, sign bundles and check signatures."""

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.terminal import options
from omnidraft.errors import SettingError
from omnidraft.runtime.archive.archive import check_hashes
from omnidraft.runtime.archive.open_archive import is_archive, open_archive
from omnidraft.runtime.bundle.bundle import open_bundle, unlisted_files

PASSPHRASE = "OMNIDRAFT_KEY_PASSPHRASE"


def keygen(
    out: Annotated[Path, typer.Option("--out", "-o", help="NAME: writes NAME.private.pem, NAME.public.pem.")],
    encrypt: Annotated[
        bool,
        typer.Option("--encrypt", help=f"Encrypt the private key; the passphrase is typed, or {PASSPHRASE}."),
    ] = False,
) -> None:
    """Make a pair of Ed25519 keys: the private key signs bundles, the public key checks them."""
    from omnidraft.signing import make_keys, need_cryptography

    need_cryptography()
    private, public, name = make_keys(out, passphrase_of(out, repeat=True) if encrypt else None)
    sys.stdout.write(
        f"{private}: keep it secret\n{public}: give it to the users of your bundles\nkey {name}\n"
    )


def sign(
    bundle: options.BundlePath,
    key: Annotated[Path, typer.Option(help="Your private key, NAME.private.pem.")],
) -> None:
    """Verify every hash of a bundle and sign its manifest; writes manifest.sig into the bundle."""
    from omnidraft.signing import sign_bundle

    name = sign_bundle(bundle, key, lambda: passphrase_of(key))
    warn_readable(key)
    sys.stdout.write(f"{bundle} is signed with key {name}\n")


def verify(
    bundle: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE",
            help="A directory made by `omnidraft export`, or an archive made by `omnidraft pack`.",
            readable=False,
        ),
    ],
    key: Annotated[
        Path,
        typer.Option(envvar=options.PUBLIC_KEY, help="The signer's public key, NAME.public.pem."),
    ],
) -> None:
    """Check a bundle's signature and every hash, and name the files that it does not cover."""
    if is_archive(bundle):
        archive = open_archive(bundle, key)
        check_hashes(archive)
        opened, unlisted, count = archive.bundle, [], len(archive.files)
    else:
        opened = open_bundle(bundle, key)
        unlisted, count = unlisted_files(opened), len(opened.stamps)
    sys.stdout.write(f"{bundle}: signed with key {opened.signed_by}, all {count} hashes match\n")
    index = opened.places.index
    for name in () if index is None else index.left_out:
        sys.stdout.write(f"left out by `omnidraft pack`: {name}\n")
    for name in unlisted:
        sys.stdout.write(f"not covered, and read by nothing: {name}\n")


def warn_readable(key: Path) -> None:
    """Tell on standard error that other users can read a private key."""
    if os.name == "posix" and key.stat().st_mode & 0o077:
        sys.stderr.write(f"omnidraft: others can read {key}; run `chmod 600 {key}`\n")


def passphrase_of(key: Path, repeat: bool = False) -> bytes:
    """The passphrase of a key, from the environment, or typed and not shown.

    Raises:
        SettingError: there is no terminal, the passphrase is empty, or the repetition differs.
    """
    from_environment = os.environ.get(PASSPHRASE)
    if not from_environment and not sys.stdin.isatty():
        raise SettingError(
            f"{key} needs a passphrase and there is no terminal to ask for it", f"set {PASSPHRASE}"
        )
    typed = from_environment or getpass.getpass(f"Passphrase of {key}: ")
    if not typed:
        raise SettingError("the passphrase is empty", "type one, or make the key without --encrypt")
    if repeat and not from_environment and getpass.getpass("Repeat the passphrase: ") != typed:
        raise SettingError("the two passphrases differ", "nothing was written, so try again")
    return typed.encode()
