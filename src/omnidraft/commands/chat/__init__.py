"""`omnidraft chat`: a conversation in the terminal."""
