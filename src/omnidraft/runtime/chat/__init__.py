"""The text of a conversation: template, system prompt, list of messages, thoughts of an answer.

Start with `prompt_template.py`. Rules: `spec/01-tokens.md`.
"""
