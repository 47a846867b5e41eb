"""Looking after finished runs and this installation."""
