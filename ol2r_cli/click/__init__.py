"""Click models: simulated users. Imports `interfaces`, `config` and `tensor`."""
