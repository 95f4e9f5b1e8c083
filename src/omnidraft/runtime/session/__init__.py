"""What a program uses: load a bundle, open a session, stream text, save the session and restore it.

Begin with api.py and session.py. start_generation.py begins a generation, decode.py runs the loop of
decoding/speculate.py for it, and session_file.py is the format on disk.
"""
