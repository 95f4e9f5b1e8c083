"""`omnidraft chat`: its options. Ctrl-C cancels an answer, not the program."""

import sys

from omnidraft.commands.terminal import options


def chat(
    bundle: options.BundlePath,
    system: options.System = None,
    max_new_tokens: options.MaxNewTokens = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    num_draft_tokens: options.Lengths = None,
    mode: options.DraftMode = None,
    adapter: options.AdapterPath = None,
    cache: options.CachePath = None,
    trace: options.TracePath = None,
    config: options.ConfigFile = None,
) -> None:
    """Talk to a bundle in the terminal. Ctrl-C cancels an answer; /help lists the commands.

    An answer has at most 512 tokens where neither -n nor --config says otherwise.
    """
    from omnidraft.commands.chat.chat_loop import Chat
    from omnidraft.commands.terminal.generation_options import GenerationOptions, generation_config, notices
    from omnidraft.commands.terminal.open_session import open_session, saved_on_exit, session_options, tell
    from omnidraft.commands.terminal.settings_file import SettingsFile
    from omnidraft.runtime.session.api import GenerationConfig

    given = GenerationOptions(
        max_new_tokens, temperature, top_p=top_p, mode=mode, num_draft_tokens=num_draft_tokens
    )
    file = SettingsFile(config)
    settings = generation_config(file, given, GenerationConfig(max_new_tokens=512))
    opening = session_options(file, cache=cache, adapter=adapter, trace=trace)
    file.refuse_others()
    tell(notices(settings, given, drafter=opening.load.drafter))
    session = open_session(bundle, opening, settings)
    if session.bundle.prompt.is_bare:
        tell(["this model has no chat template: it continues each message as text, as a base model does"])
    session.system = system
    with saved_on_exit(session, cache):
        Chat(session, settings, sys.stdin, sys.stdout).run()
