"""Many runs: plans and checks them, and runs them by a launcher. Imports `launcher`, `run` and `config`."""
