"""One file per `ol2r` subcommand other than `run`."""
