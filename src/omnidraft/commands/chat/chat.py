"""`omnidraft chat`: its options. Ctrl-C cancels an answer, not the program."""

import sys

import typer

from omnidraft.commands.terminal import options


def chat(
    context: typer.Context,
    bundle: options.BundlePath,
    system: options.System = None,
    messages: options.Messages = None,
    max_new_tokens: options.MaxNewTokens = 512,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = None,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.Penalty = 1.0,
    stop: options.Stop = None,
    mode: options.Mode = "trie",
    num_draft_tokens: options.Lengths = "auto",
    verification: options.Verification = "auto",
    no_drafter: options.NoDrafter = False,
    cache: options.CachePath = None,
    adapter: options.AdapterPath = None,
    profile: options.ProfilePath = None,
    trace: options.TracePath = None,
    threads: options.Threads = None,
    target_on: options.TargetOn = "cpu",
    drafter_on: options.DrafterOn = "cpu",
    public_key: options.PublicKey = None,
    verify: options.VerifyFiles = "auto",
    measure: options.MeasureCosts = "auto",
) -> None:
    """Talk to a bundle in the terminal. Ctrl-C cancels an answer; /help lists the commands."""
    from omnidraft.commands.chat.chat_loop import Chat
    from omnidraft.commands.terminal.generation_options import generation_config, notices
    from omnidraft.commands.terminal.open_session import (
        open_session,
        saved_on_exit,
        session_options,
        tell,
    )
    from omnidraft.commands.terminal.read_messages import read_message_file, with_system

    config = generation_config(context)
    tell(notices(context))
    listed = None if messages is None else with_system(read_message_file(messages), system)
    session = open_session(session_options(context, config))
    if session.bundle.prompt.is_bare:
        tell(["this model has no chat template: it continues each message as text, as a base model does"])
    session.system = system
    with saved_on_exit(session, cache):
        Chat(session, config, sys.stdin, sys.stdout).run(listed)
