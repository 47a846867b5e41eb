"""Many runs: what they are, checked before the first; then all of them, wherever a launcher sends them."""
