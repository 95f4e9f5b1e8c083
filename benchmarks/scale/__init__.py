"""Speed at the cost of a phone-size target: widened starter targets, whose function is unchanged."""
