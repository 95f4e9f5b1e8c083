"""What several tests share: toy models and maps, tiny files, recorded texts, and processes that are killed.

Begin with toy.py, a language small enough to enumerate; places.py has the paths.
"""
