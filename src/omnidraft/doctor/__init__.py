"""What `omnidraft doctor` looks at: this machine, and a bundle on it. Needs the core packages only."""
