"""A local server that clients of OpenAI's API know: chat, completions, models, metrics, and a page.

Begin with `app.py`; `requests.py` says what a request may ask for, `answerer.py` how it is answered.
"""
