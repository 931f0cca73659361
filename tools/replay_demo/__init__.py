"""Run a real broker's recorded traffic through every command of ``authorizerd replay``."""
