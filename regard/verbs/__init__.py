"""What regard does: each verb as a Python function and as a command."""
