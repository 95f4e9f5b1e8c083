"""What a program uses: load a bundle, open a session, stream text, save the session and restore it."""
