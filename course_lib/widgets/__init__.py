"""What you see."""
