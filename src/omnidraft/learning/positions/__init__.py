"""Responses of the target as training positions of the drafter; numpy only."""
