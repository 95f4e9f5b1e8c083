"""`omnidraft keygen | sign | verify`: keys, signatures of bundles, and whether one holds."""

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.terminal import options
from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.bundle import open_bundle, unlisted_files

PASSPHRASE = "OMNIDRAFT_KEY_PASSPHRASE"


def keygen(
    out: Annotated[Path, typer.Option("--out", "-o", help="NAME: makes NAME.private.pem, NAME.public.pem.")],
    encrypt: Annotated[
        bool,
        typer.Option("--encrypt", help=f"Ask for a passphrase (or take {PASSPHRASE}) for the private key."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Make a pair of Ed25519 keys: the private one signs bundles, the public one goes to their users."""
    from omnidraft.signing import make_keys, need_cryptography

    need_cryptography()
    private, public, name = make_keys(out, passphrase_of(out, repeat=True) if encrypt else None)
    if as_json:
        return options.print_json({"private": str(private), "public": str(public), "key": name})
    sys.stdout.write(
        f"{private}: keep it secret\n{public}: give it to those who use your bundles\nkey {name}\n"
    )


def sign(
    bundle: options.BundlePath,
    key: Annotated[Path, typer.Option("--key", help="Your private key, NAME.private.pem.")],
    as_json: options.Json = False,
) -> None:
    """Verify every hash of a bundle and sign its manifest; writes manifest.sig beside it."""
    from omnidraft.signing import sign_bundle

    name = sign_bundle(bundle, key, lambda: passphrase_of(key))
    if os.name == "posix" and key.stat().st_mode & 0o077:
        sys.stderr.write(f"omnidraft: others can read {key}; run `chmod 600 {key}`\n")
    if as_json:
        return options.print_json({"bundle": str(bundle), "key": name})
    sys.stdout.write(f"{bundle} is signed with key {name}\n")


def verify(
    bundle: options.BundlePath,
    key: Annotated[
        Path,
        typer.Option("--key", envvar=options.PUBLIC_KEY, help="The signer's public key, NAME.public.pem."),
    ],
    as_json: options.Json = False,
) -> None:
    """Check a bundle's signature and every hash, and name files that no signature covers."""
    found = open_bundle(bundle, key)
    extra = unlisted_files(found)
    if as_json:
        return options.print_json({"key": found.signed_by, "files": len(found.stamps), "unlisted": extra})
    sys.stdout.write(f"{bundle}: signed with key {found.signed_by}, all {len(found.stamps)} hashes match\n")
    for name in extra:
        sys.stdout.write(f"not covered, and read by nothing: {name}\n")


def passphrase_of(key: Path, repeat: bool = False) -> bytes:
    """The passphrase of a key, from the environment or typed without being shown."""
    given = os.environ.get(PASSPHRASE)
    if not given and not sys.stdin.isatty():
        raise SettingError(
            f"{key} needs a passphrase and there is no terminal to ask for it", f"set {PASSPHRASE}"
        )
    typed = given or getpass.getpass(f"Passphrase of {key}: ")
    if not typed:
        raise SettingError("the passphrase is empty", "type one, or make the key without --encrypt")
    if repeat and not given and getpass.getpass("The same again: ") != typed:
        raise SettingError("the two passphrases differ", "nothing was written, so try again")
    return typed.encode()
