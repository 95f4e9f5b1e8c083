"""`omnidraft chat`: a conversation in the terminal.

Begin with `chat.py`, the command; `chat_loop.py` reads messages and commands and answers them.
"""
