"""What an attacker tries, each attempt in a process with little time and memory: `make hostile`."""
