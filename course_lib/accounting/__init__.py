"""What it costs: traffic models, ledgers, hardware."""
