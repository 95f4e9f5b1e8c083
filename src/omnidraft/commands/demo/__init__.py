"""`omnidraft demo`: a real model, fetched, exported, timed, and timed again after the drafter learned."""
