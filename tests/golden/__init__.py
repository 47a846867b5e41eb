"""Golden traces: what short runs showed and measured, as text. `make golden` rewrites them; read the diff."""
