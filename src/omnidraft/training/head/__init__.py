"""The adaptive head in torch: how likely a draft token is to be accepted (method section 5.3).

head.py holds the module, its loss and the conversion to a bundle's head; head_trainer.py trains it beside a
drafter, on batches (head_batch.py) of hidden states (head_states.py). Begin with head.py.
"""
